"""Sums that every reader here prints: one object, with the total and the inclusive sum of each function."""
import json


def show(profiles, **more):
    """Each profile is a list of (functions, weight)."""
    result = dict(more)
    for name, stacks in profiles.items():
        inclusive = {}
        for functions, weight in stacks:
            for function in set(functions):
                inclusive[function] = inclusive.get(function, 0) + weight
        result[name] = {"total": sum(weight for _, weight in stacks), "inclusive": inclusive}
    print(json.dumps(result))
