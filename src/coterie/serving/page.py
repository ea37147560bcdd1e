"""The status as a small page, for a browser on the same machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined

from coterie.report.formats import format_bytes, format_duration

if TYPE_CHECKING:
    from coterie.serving.status import Status

__all__ = ["make_page"]

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="10">
<title>{{ status.helper }}: coterie serve</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid #8886; }
code { font-size: .85em; overflow-wrap: anywhere; }
.no { font-weight: bold; }
td:first-child { min-width: 12rem; }
@media (max-width: 48rem) {
  thead { display: none; }
  tr, td { display: block; }
  tr { border-bottom: 1px solid #8886; padding: .4rem 0; }
  td { border: 0; padding: .2rem 0; }
  td[data-of]::before { content: attr(data-of) ": "; opacity: .7; }
}
</style>
</head>
<body>
<h1>{{ status.helper }}</h1>
<p class="{{ 'ok' if status.healthy else 'no' }}">{% if status.healthy %}Healthy{% else %}Not healthy:
{{ status.problems | join("; ") or "stopping" }}{% endif %}. Reached {{ status.listen }}, up for
{{ duration(now - status.since) }}; {{ running }} of at most {{ status.most_studies }} studies run.
Coterie {{ status.version }}, digest <code>{{ status.digest }}</code>.</p>
<div class="table" tabindex="0">
<table>
<thead><tr><th>study</th><th>participants</th><th>standing</th><th>now</th><th>last run</th></tr></thead>
<tbody>
{% for one in status.studies %}
<tr>
<td>{{ one.name }}<br><code>{{ one.file }}</code>{% if one.hash %}<br><code>{{ one.hash[:16] }}</code>{% endif %}</td>
<td data-of="participants">{{ one.participants | join(", ") }}</td>
<td data-of="standing">{{ one.standing }}{% if one.why %}<br>{{ one.why }}{% endif %}</td>
<td data-of="now">{% if one.running %}{{ one.running.purpose }}: {{ one.running.phase }}<br>for
{{ duration(now - one.running.since) }}{% if one.running.memory %}, {{ bytes(one.running.memory) }} of memory{% endif %}
{% else %}not running{% endif %}</td>
<td data-of="last run">{% if one.last %}{{ one.last.purpose }}, {{ time(one.last.ended) }}:
{{ one.last.text }}{% if one.last.out %}<br>
<code>{{ one.last.out }}</code>{% endif %}{% else %}none{% endif %}</td>
</tr>
{% else %}
<tr><td colspan="5">There are no studies in the folder.</td></tr>
{% endfor %}
</tbody>
</table>
</div>
{% if status.relays %}
<h2>Relays</h2>
<ul>{% for one in status.relays %}<li>{{ one.relay }}: {% if one.registered %}registered{% else %}not
registered{% if one.trouble %} ({{ one.trouble }}){% endif %}{% endif %}</li>{% endfor %}</ul>
{% endif %}
{% if status.refused %}
<h2>Refused connections</h2>
<ul>{% for why, count in status.refused.items() %}<li>{{ why }}: {{ count }}</li>{% endfor %}</ul>
{% endif %}
</body>
</html>
"""


def make_page(status: Status) -> str:
    """HTML that loads nothing from anywhere. All that comes from files is escaped."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(PAGE).render(
        status=status,
        running=sum(one.running is not None for one in status.studies),
        now=time.time(),
        duration=format_duration,
        bytes=format_bytes,
        time=lambda at: time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at)),
    )
