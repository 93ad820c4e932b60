"""The process of an agent: it starts, dies, hangs, is restarted, and never outlives its client."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from pathlib import Path

import pytest
from tests.client.agents import fairlead
from tests.client.fake_agent import PATIENCE, program
from tests.support.gates import wait_for_exit
from tests.support.stage import ENDLESS, bash, calls, says

from fairlead.client import Client, StopTimes, events
from fairlead.errors import AgentGone, ClientError

SHORT = StopTimes(after_eof=0.2, after_term=0.2)


async def test_a_program_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    with pytest.raises(AgentGone, match="'no-such-agent' cannot start"):
        async with Client.start(["no-such-agent", "--mode", "rpc"]):
            pass
    with pytest.raises(AgentGone, match="nowhere is not a directory"):
        async with Client.start(["true"], cwd=tmp_path / "nowhere"):
            pass


async def test_an_agent_that_refuses_to_start_says_why(tmp_path: Path) -> None:
    async with fairlead(tmp_path / "a", flags=["--no-such-flag"]) as (client, _):
        with pytest.raises(AgentGone, match=r"The agent has ended with exit code 2: .*--no-such-flag") as caught:
            await client.get_state()
        assert caught.value.exit_code == 2
        assert caught.value.stderr


async def test_a_client_that_was_not_entered_says_so() -> None:
    with pytest.raises(ClientError, match="Use it in `async with`"):
        await Client.start(["true"]).get_state()


async def test_an_agent_that_dies_during_a_run_fails_the_run(tmp_path: Path) -> None:
    async with fairlead(tmp_path / "a", ENDLESS) as (client, _):
        stream = client.events()
        run = await client.prompt("Go on.")
        while not isinstance(await anext(stream), events.MessageUpdate):
            pass
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        with pytest.raises(AgentGone, match="ended with exit code -9") as caught:
            await asyncio.wait_for(run, PATIENCE)
        assert (caught.value.exit_code, caught.value.restarted) == (-9, False)
        with pytest.raises(AgentGone):
            while True:
                await anext(stream)
        with pytest.raises(AgentGone):
            await client.get_state()


async def test_stopping_during_a_run_lets_the_agent_end_it(tmp_path: Path) -> None:
    async with fairlead(tmp_path / "a", ENDLESS) as (client, _):
        run = await client.prompt("Go on.")
        stream = client.events()
        assert await client.stop() == 0
        assert (await run).aborted
        kinds = [type(event).__name__ async for event in stream]
        assert kinds[-1] == "AgentSettled"


async def test_a_run_that_the_agent_does_not_end_fails_when_the_client_is_stopped(tmp_path: Path) -> None:
    argv = program(tmp_path, "for command in commands(): answer(command)\n")
    async with Client.start(argv) as client:
        run = await client.prompt("Go on.")
        await client.stop()
        with pytest.raises(AgentGone, match="The client was stopped"):
            await run


async def test_an_agent_that_ignores_the_end_of_its_input_gets_sigterm(tmp_path: Path) -> None:
    argv = program(tmp_path, "say(type='turn_start')\nwhile True: time.sleep(60)\n")
    async with Client.start(argv, stop_times=SHORT) as client:
        await anext(client.events())
        assert await client.stop() == -signal.SIGTERM


async def test_an_agent_that_ignores_sigterm_is_killed_with_its_children(tmp_path: Path) -> None:
    code = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"])
say(type="child", pid=child.pid)
while True: time.sleep(60)
"""
    async with Client.start(program(tmp_path, code), stop_times=SHORT) as client:
        child = (await anext(client.events())).raw["pid"]
        assert await client.stop() == -signal.SIGKILL
    wait_for_exit(child)


async def test_a_child_that_outlives_the_agent_and_holds_its_output_does_not_hold_up_the_client(tmp_path: Path) -> None:
    code = """
child = subprocess.Popen(["sleep", "600"])
say(type="child", pid=child.pid)
os._exit(3)
"""
    async with Client.start(program(tmp_path, code)) as client:
        stream = client.events()
        child = (await anext(stream)).raw["pid"]
        with pytest.raises(AgentGone, match="exit code 3"):
            await asyncio.wait_for(anext(stream), PATIENCE)
    wait_for_exit(child)


async def test_an_agent_that_closes_its_input_refuses_commands_but_still_sends_events(tmp_path: Path) -> None:
    code = "os.close(0)\nsay(type='turn_start')\ntime.sleep(600)\n"
    async with Client.start(program(tmp_path, code), stop_times=SHORT) as client:
        assert isinstance(await anext(client.events()), events.TurnStart)
        with pytest.raises(AgentGone, match="has closed its input"):
            while True:
                await client.get_state(timeout=PATIENCE)


async def test_an_agent_that_closes_its_output_is_gone(tmp_path: Path) -> None:
    code = "os.close(1)\ntime.sleep(600)\n"
    async with Client.start(program(tmp_path, code), stop_times=SHORT) as client:
        with pytest.raises(AgentGone):
            await client.get_state()


async def test_garbage_on_the_output_disturbs_nothing(tmp_path: Path) -> None:
    code = r"""
for command in commands():
    sys.stdout.buffer.write(b"\x00\xff not json\n{\"type\": \"turn_st\n[[[[[\n" + b"[" * 100000 + b"\n")
    sys.stdout.flush()
    answer(command, data={"text": "fine"})
"""
    async with Client.start(program(tmp_path, code)) as client:
        stream = client.events()
        assert (await client.get_last_assistant_text()).text == "fine"
        assert [type(await anext(stream)).__name__ for _ in range(4)] == ["UnparsedLine"] * 4


async def test_stderr_output_of_an_agent_never_blocks_it(tmp_path: Path) -> None:
    code = "sys.stderr.write('x' * (1 << 20) + '\\nthe last words')\nsys.stderr.flush()\nsys.exit(4)\n"
    async with Client.start(program(tmp_path, code)) as client:
        with pytest.raises(AgentGone, match="exit code 4: the last words") as caught:
            await client.get_state()
        assert len(caught.value.stderr) <= 8 << 10


async def test_a_crash_is_followed_by_a_restart_that_resumes_the_session(tmp_path: Path) -> None:
    async with fairlead(tmp_path / "a", says("First."), ENDLESS, says("Third."), restart=True) as (client, _):

        @client.tool
        def ping() -> str:
            """Answer."""
            return "pong"

        assert (await client.ask("One")).text == "First."
        stream = client.events()
        run = await client.prompt("Two")
        while not isinstance(await anext(stream), events.MessageUpdate):
            pass
        before, file = client.pid, (await client.get_state()).session_file
        assert before is not None
        os.kill(before, signal.SIGKILL)
        with pytest.raises(AgentGone, match="It was restarted and has resumed") as caught:
            await asyncio.wait_for(run, PATIENCE)
        assert caught.value.restarted
        while not isinstance(event := await anext(stream), events.Restarted):
            pass
        assert (event.session_file, event.exit_code) == (file, -9)
        assert client.pid != before
        result = await client.ask("Three")
        assert result.text == "Third."
        assert (await client.get_state()).session_file == file
        assert "First." in str((await client.get_messages()).messages)
        assert "ping" in [tool.name for tool in (await client.get_tools()).tools]


async def test_commands_during_a_restart_wait_for_it(tmp_path: Path) -> None:
    async with fairlead(tmp_path / "a", restart=True) as (client, _):
        stream = client.events()
        await client.get_state()
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        while not isinstance(await asyncio.wait_for(anext(stream), PATIENCE), events.Restarted):
            pass
        assert (await client.ask("Hi")).text == "ok"


async def test_a_restart_survives_a_session_file_that_cannot_be_looked_for(tmp_path: Path) -> None:
    code = """
for command in commands():
    if command["type"] == "prompt":
        sys.exit(7)
    answer(command, data={"sessionFile": "/" + "x" * 5000})
"""
    async with Client.start(program(tmp_path, code), restart=True) as client:
        await client.get_state()
        with pytest.raises(AgentGone, match="has begun a new session"):
            await asyncio.wait_for(client.prompt("Hi"), PATIENCE)
        await asyncio.wait_for(client.get_state(), PATIENCE)


async def test_an_agent_that_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    async with Client.start(program(tmp_path, "sys.exit(7)\n"), restart=True) as client:
        with pytest.raises(AgentGone, match="exit code 7"):
            while True:
                await asyncio.wait_for(client.get_state(), PATIENCE)


async def test_an_agent_that_stops_reading_before_it_dies_is_restarted(tmp_path: Path) -> None:
    code = """
incoming = commands()
answer(next(incoming))  # with which the client learns its session
last = next(incoming)
os.close(0)
answer(last)
time.sleep(0.3)  # meanwhile the client finds the pipe broken
os._exit(7)
"""
    async with Client.start(program(tmp_path, code), restart=True) as client:
        await asyncio.wait_for(client.get_state(), PATIENCE)
        with pytest.raises(AgentGone, match="exit code 7") as caught:
            await asyncio.wait_for(client.get_state(), PATIENCE)
        assert caught.value.restarted


async def test_a_thousand_prompts_leave_nothing_behind(tmp_path: Path) -> None:
    code = """
message = {"role": "assistant", "content": [{"type": "text", "text": "ok"}], "api": "", "provider": "", "model": "",
           "usage": {}, "stopReason": "stop", "timestamp": 1}
for command in commands():
    answer(command)
    say(type="agent_start")
    say(type="message_end", message=message)
    say(type="agent_end", messages=[message])
    say(type="agent_settled")
"""
    async with Client.start(program(tmp_path, code)) as client:
        sizes: list[int] = []
        for number in range(1_000):
            async with client.run(f"prompt {number}") as run:
                async for _ in run:
                    pass
            assert (await run).text == "ok"
            if number in (100, 999):
                del run
                gc.collect()
                sizes.append(len(gc.get_objects()))
        assert sizes[1] - sizes[0] < 500
        assert len(asyncio.all_tasks()) < 10


async def test_stopping_an_agent_twice_or_after_its_end_is_allowed(tmp_path: Path) -> None:
    async with fairlead(tmp_path / "a", calls(bash("true")), says("ok")) as (client, _):
        await client.ask("Hi")
        await client.shutdown()
        assert await client.stop() == 0
        assert await client.stop() == 0
