"""Uses real servers through a gateway, as a client of the Python SDK:
servers_client.py legacy|auto FOLDER URL | PROGRAM ARGS…

They are called everything, filesystem, memory, thinking, time and git. The folder has a file `note.txt` and a git
repository `repository` with a new file."""

import asyncio
import sys
from collections import Counter

from mcp import Client, StdioServerParameters
from mcp_types import CreateMessageResult, ElicitResult, TextContent

OFFERED = {"filesystem": 14, "memory": 9, "thinking": 1, "time": 2, "git": 12}


async def elicit(context, params):
    return ElicitResult(action="accept", content={"name": "Ada", "check": True})


async def sample(context, params):
    return CreateMessageResult(role="assistant", content=TextContent(text="a sampled word"), model="none")


async def main(mode, folder, target, *args):
    server = target if target.startswith("http") else StdioServerParameters(command=target, args=args)
    options = {"elicitation_callback": elicit, "sampling_callback": sample}
    async with Client(server, mode=mode, **options) as client:
        listed = await client.list_tools()
        offered = Counter(tool.name.split("__")[0] for tool in listed.tools)
        assert {name: offered[name] for name in OFFERED} == OFFERED, offered
        assert offered["everything"] >= 13, offered

        async def call(name, arguments, **options):
            result = await client.call_tool(name, arguments, **options)
            assert not result.is_error, result
            return result

        async def say(name, arguments):
            return (await call(name, arguments)).content[0].text

        await everything(client, call, say)
        await the_others(call, say, folder)


async def everything(client, call, say):
    assert await say("everything__echo", {"message": "größer 🙂"}) == "Echo: größer 🙂"
    steps = []

    async def progress(done, total, message):
        steps.append(done)

    slow = {"duration": 0.2, "steps": 4}
    await call("everything__trigger-long-running-operation", slow, progress_callback=progress)
    assert steps == [1, 2, 3, 4], steps
    weather = await call("everything__get-structured-content", {"location": "Chicago"})
    assert "temperature" in weather.structured_content, weather
    answered = await say("everything__trigger-elicitation-request", {})
    assert "User provided" in answered, answered
    sampled = await say("everything__trigger-sampling-request", {"prompt": "Say a word"})
    assert "a sampled word" in sampled, sampled
    resources = (await client.list_resources()).resources
    document = next(one.uri for one in resources if "architecture" in str(one.uri))
    assert (await client.read_resource(document)).contents[0].text
    read = await client.read_resource("demo://resource/dynamic/text/3")
    assert "Resource 3" in read.contents[0].text, read
    prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
    named = next(name for name in prompts if name.endswith("args-prompt"))
    prompt = await client.get_prompt(named, {"city": "Paris"})
    assert "Paris" in prompt.messages[0].content.text, prompt


async def the_others(call, say, folder):
    note = await say("filesystem__read_text_file", {"path": f"{folder}/note.txt"})
    assert note == "every tool in its place", note
    ada = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
    await call("memory__create_entities", {"entities": [ada]})
    graph = await call("memory__read_graph", {})
    assert graph.structured_content["entities"] == [ada], graph
    thought = {"thought": "first", "thoughtNumber": 1, "totalThoughts": 2, "nextThoughtNeeded": True}
    told = await call("thinking__sequentialthinking", thought)
    assert told.structured_content["thoughtNumber"] == 1, told
    zones = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    told = await call("time__convert_time", zones)
    assert told.structured_content["time_difference"] == "+9.0h", told
    status = await say("git__git_status", {"repo_path": f"{folder}/repository"})
    assert "new.txt" in status, status


asyncio.run(main(*sys.argv[1:]))
print("all as it should be")
