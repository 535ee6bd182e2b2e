"""Looks for a leak through 'highwater mcp', with the official SDK, and knows nothing of Highwater: it begins with the tool whose description says so,
and makes the first call that each answer proposes, until an answer shows something that grows steadily.

    client.py HIGHWATER FOLDER

Prints one JSON document: the calls with their answers, and the site that was found.
"""
import asyncio
import json
import re
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

MOST_CALLS = 5
# A row of a table: an amount per second, a steadiness of 90 % or more, and the site at the end.
STEADY = re.compile(r"^ *[\d.,]+ \w+ +(?:9\d|100) % .*?\d  (\S.*)$", re.MULTILINE)


async def look(highwater, folder):
    calls = []
    server = StdioServerParameters(command=highwater, args=["mcp", folder])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        name, arguments = next(tool.name for tool in tools if "Begin here" in tool.description), {}
        while len(calls) < MOST_CALLS:
            result = (await session.call_tool(name, arguments)).model_dump(by_alias=True)
            text = result["content"][0]["text"]
            calls.append({"tool": name, "arguments": arguments, "text": text, "isError": bool(result["isError"])})
            if found := STEADY.search(text):
                return {"calls": calls, "found": found[1]}
            proposed = text.split("\nnext\n")[1].splitlines()[0].strip()
            name, rest = proposed.split(" ", 1)
            arguments, _ = json.JSONDecoder().raw_decode(rest)
    return {"calls": calls, "found": None}


print(json.dumps(asyncio.run(look(*sys.argv[1:]))))
