"""What a party shows: tables, plots and the HTML report."""
