"""Questions of `highwater fleet` on Spark. In a notebook: `highwater_spark.answer(spark, highwater_spark.read_request(text))`."""

from .__main__ import RequestError, answer, read_request

__all__ = ["RequestError", "answer", "read_request"]
__version__ = "0.1.0"
