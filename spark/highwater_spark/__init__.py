"""Questions of `highwater fleet` on Spark. In a notebook: `highwater_spark.answer(spark, highwater_spark.read_request(text))`."""

__all__ = ["RequestError", "answer", "read_request"]
__version__ = "0.1.0"


def __getattr__(name):
    # Not imported before it is needed: `python -m highwater_spark` would load the program twice.
    if name in __all__:
        from . import __main__ as program

        return getattr(program, name)
    raise AttributeError(name)
