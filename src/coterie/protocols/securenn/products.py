"""SecureNN's MatMul and SelectShare, and the paper's ElementWiseMatMul: products with dealt triples."""

from coterie.protocols.beaver import elementwise_product, matrix_product, select_share, square

__all__ = ["elementwise_product", "matrix_product", "select_share", "square"]
