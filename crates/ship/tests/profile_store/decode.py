"""Reads the bodies of requests with implementations that share no code with their writer, and prints what is in them as JSON.

decode.py otlp FILE...            with the classes of OpenTelemetry's package
decode.py pyroscope FOLDER FILE...  with classes that protoc makes of the schemas beside this file; profiles are written into FOLDER
"""

import gzip
import json
import os
import sys
import uuid


def add(stacks, key, value):
    stacks[key] = stacks.get(key, 0) + value


def otlp(files):
    from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2

    for name in files:
        request = profiles_service_pb2.ExportProfilesServiceRequest()
        with open(name, "rb") as file:
            data = file.read()
        request.ParseFromString(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        known = request.SerializeToString()
        request.DiscardUnknownFields()
        assert request.SerializeToString() == known, "all fields are known"
        tables = request.dictionary
        for field in tables.DESCRIPTOR.fields:
            table = getattr(tables, field.name)
            first = "" if field.name == "string_table" else type(table[0])()
            assert table[0] == first, f"entry 0 of {field.name} is the zero value"
            entries = [entry if isinstance(entry, str) else entry.SerializeToString(deterministic=True) for entry in table]
            assert len(set(entries)) == len(entries), f"{field.name} has an entry twice"
        text = tables.string_table
        for resource in request.resource_profiles:
            attributes = {}
            for attribute in resource.resource.attributes:
                assert attribute.key not in attributes
                attributes[attribute.key] = getattr(attribute.value, attribute.value.WhichOneof("value"))
            found = {"attributes": attributes, "profiles": []}
            for scope in resource.scope_profiles:
                for profile in scope.profiles:
                    assert (text[profile.period_type.type_strindex], text[profile.period_type.unit_strindex]) == ("space", "bytes")
                    assert len(profile.profile_id) in (0, 16) and (not profile.profile_id or any(profile.profile_id))
                    stacks, build_ids = {}, set()
                    for sample in profile.samples:
                        assert len(sample.values) == 1 and sample.stack_index > 0
                        names = []
                        for index in tables.stack_table[sample.stack_index].location_indices:
                            location = tables.location_table[index]
                            names += [text[tables.function_table[line.function_index].name_strindex] for line in location.lines]
                            mapping = tables.mapping_table[location.mapping_index]
                            for attribute in mapping.attribute_indices:
                                attribute = tables.attribute_table[attribute]
                                assert text[attribute.key_strindex] == "process.executable.build_id.gnu"
                                build_ids.add(text[mapping.filename_strindex] + " " + attribute.value.string_value)
                        add(stacks, ";".join(names), sample.values[0])
                    found["profiles"].append({
                        "type": text[profile.sample_type.type_strindex],
                        "unit": text[profile.sample_type.unit_strindex],
                        "time": profile.time_unix_nano,
                        "duration": profile.duration_nano,
                        "period": profile.period,
                        "id": profile.profile_id.hex(),
                        "sum": sum(stacks.values()),
                        "stacks": stacks,
                        "build_ids": sorted(build_ids),
                    })
            print(json.dumps(found))


def pyroscope(folder, files):
    from grpc_tools import protoc

    here = os.path.dirname(os.path.abspath(__file__))
    made = protoc.main(["protoc", f"-I{here}", f"--python_out={folder}", f"{here}/push.proto", f"{here}/profile.proto"])
    assert made == 0
    sys.path.insert(0, folder)
    import profile_pb2
    import push_pb2

    number = 0
    for name in files:
        request = push_pb2.PushRequest()
        with open(name, "rb") as file:
            request.ParseFromString(file.read())
        for series in request.series:
            labels = {}
            for label in series.labels:
                assert label.name not in labels
                labels[label.name] = label.value
            for sample in series.samples:
                uuid.UUID(sample.ID)
                path = os.path.join(folder, f"profile-{number}.pb.gz")
                number += 1
                with open(path, "wb") as file:
                    file.write(sample.raw_profile)
                data = gzip.decompress(sample.raw_profile)
                profile = profile_pb2.Profile()
                profile.ParseFromString(data)
                text = profile.string_table
                locations = {location.id: location for location in profile.location}
                functions = {function.id: function for function in profile.function}
                mappings = {mapping.id: mapping for mapping in profile.mapping}
                types = [text[kind.type] + "/" + text[kind.unit] for kind in profile.sample_type]
                sums = {kind: 0 for kind in types}
                stacks = {}
                for one in profile.sample:
                    assert len(one.value) == len(types)
                    for kind, value in zip(types, one.value):
                        sums[kind] += value
                    names = [text[functions[line.function_id].name] for location in one.location_id for line in locations[location].line]
                    add(stacks, ";".join(names), one.value[types.index("inuse_space/bytes")])
                print(json.dumps({
                    "labels": labels,
                    "id": sample.ID,
                    "path": path,
                    "size": len(data),
                    "time": profile.time_nanos,
                    "duration": profile.duration_nanos,
                    "period": [text[profile.period_type.type], text[profile.period_type.unit], profile.period],
                    "sums": sums,
                    "stacks": stacks,
                    "modules": sorted(text[m.filename] + " " + text[m.build_id] for m in mappings.values()),
                }))


if __name__ == "__main__":
    if sys.argv[1] == "otlp":
        otlp(sys.argv[2:])
    else:
        pyroscope(sys.argv[2], sys.argv[3:])
