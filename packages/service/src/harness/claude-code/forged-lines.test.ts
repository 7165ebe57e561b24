import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { expect, test, vi } from 'vitest';
import { message, openSession } from '../../../../../test/support/harness-session.ts';
import type { Processes } from '../harness.ts';
import { claudeCodeHarness } from './claude-code.ts';

/** A process in the place of Claude Code, which prints these lines after its first input and then waits. */
function printing(lines: readonly string[]): Processes {
  const script = 'read -r first; printf "%s\\n" "$@"; cat > /dev/null';
  return {
    start: (argv) => {
      const command = argv.join(' ').includes('/claude ') ? [script, 'sh', ...lines] : ['exit 0'];
      const child = spawn('/bin/sh', ['-c', ...command], { stdio: 'pipe' });
      const exited = once(child, 'exit').then(([exitCode, signal]) => ({ exitCode, signal }));
      const kill = async () => {
        child.kill('SIGKILL');
        await exited;
      };
      return { child, exited, gatewayReady: Promise.resolve(), end: () => void kill(), kill };
    },
  };
}

async function open(...lines: unknown[]) {
  const harness = claudeCodeHarness('/bin/claude', 'haiku');
  return openSession(
    harness,
    { model: 'claude-opus-4-8' },
    {
      ...{ workspaceFolder: tmpdir(), homeFolder: tmpdir() },
      endpoint: { url: 'http://127.0.0.1:1', token: 'run-token' },
      processes: printing(lines.map((line) => JSON.stringify(line))),
    },
  );
}

const idle = { type: 'system', subtype: 'session_state_changed', state: 'idle', session_id: 'x', uuid: 'x' };

// Vitest fails when an error is caught nowhere; it would end the runner, with the runs of all agents.
test.each([
  { subtype: 'error_during_execution' },
  { subtype: 'x', errors: 7 },
  { subtype: 'x', errors: [{ toString: 1, valueOf: 1 }] },
  { subtype: 'success', is_error: true, result: '', stop_reason: { toString: 1, valueOf: 1 } },
])('a result that the agent wrote itself ends the turn: %j', async (fields) => {
  const { session } = await open({ type: 'result', ...fields }, idle);
  expect(await session.deliver(message('Hi'))).toMatchObject({ type: 'failed', code: 'HARNESS_ERROR' });
  await session.kill();
});

test('a call whose id is not a text is not shown', async () => {
  const block = (id: unknown) => ({ type: 'tool_use', id, name: 'Bash', input: { command: 'make' } });
  const content = [block({ length: 1 }), block('a')];
  const { session, items } = await open({
    type: 'assistant',
    parent_tool_use_id: null,
    message: { content },
  });
  const turn = session.deliver(message('Hi'));
  await vi.waitUntil(() => items.length > 0);
  await session.kill();
  await turn;
  expect(items).toMatchObject([{ type: 'TOOL_CALL', text: 'make', data: { id: 'a' } }]);
});
