import { afterAll, beforeAll, expect, test } from 'vitest';
import { claudeCode, codex, providerEnvironment, TestAgents } from '../agents/test-service.ts';
import { startProviderStub } from '../provider/stub.ts';
import { apiOf } from '../support/api.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { useMeasuredServer } from './measured-server.ts';

/**
 * An agent takes the output of its harness (pidfd_getfd) and writes lines to it. A runner may be in the process of the
 * service, so no such line may keep it from serving others.
 */
const stub = await startProviderStub();
afterAll(() => stub.close());
const { server, expectCheap } = await useMeasuredServer(providerEnvironment(stub));
const api = apiOf(server);
const agents = new TestAgents(api, uniqueName('lines'));

beforeAll(async () => {
  // With a secret, every text of a line is also searched for its value.
  await writeResource(api, 'secret', 'hidden', { value: 'canary-of-the-hostile-lines' });
  await writeResource(api, 'environment', agents.workspace, { variables: { KEY: { fromSecret: 'hidden' } } });
  await writeResource(api, 'workspace', agents.workspace, { environment: agents.workspace });
});

/**
 * Writes what the expressions return to the output of the process with this name. The process is stopped meanwhile: a
 * line that it wrote would be in the middle of another.
 */
const inject = (program: string, ...lines: string[]): string => `perl -e '
  my $pid = 0;
  for (glob("/proc/[0-9]*/comm")) {
    open(my $comm, "<", $_) or next;
    my $name = <$comm>;
    $pid = $1 + 0 if $name eq "${program}\n" && m{([0-9]+)};
  }
  my $output = syscall(438, syscall(434, $pid, 0), 1, 0);
  die "no output of $pid: $!" if $output < 0;
  open(my $file, ">&=", $output) or die;
  my ($thread) = map { m|([0-9a-f-]{36})[.]jsonl| } glob("$ENV{HOME}/.codex/sessions/*/*/*/*");
  kill "STOP", $pid;
  for my $line (${lines.join(', ')}) {
    for (my $at = 0; $at < length $line; ) {
      vec(my $ready = "", $output, 1) = 1;
      select(undef, $ready, undef, undef);
      $at += syswrite($file, $line, 65536, $at) // 0;
    }
  }
  kill "CONT", $pid;' && echo written`;

const megabyte = 1024 * 1024;
/** Perl expressions. */
const repeated = (text: string, times: number): string => `qq{${text}} x ${times}`;
const line = (...parts: string[]): string => `${['qq{\\n}', ...parts, 'qq{\\n}'].join(' . ')}`;

const image = `qq{"iVBO} . ${repeated('A', 6.6 * megabyte)} . qq{"}`;
const text = (part: string, bytes: number) =>
  `qq{"} . ${repeated(part, Math.floor(bytes / part.length))} . qq{"}`;
const keys = `join(",", map { qq{"} . ("k" x 120) . qq{$_":0} } 1..24000)`;

/** The beginning and the end of a result of a tool. */
const results = {
  claude: ['qq<{"type":"user","parent_tool_use_id":null,"message":{"content":[>', 'qq<]}}>'],
  codex: [
    'qq<{"method":"item/completed","params":{"threadId":"$thread","item":{"type":"mcpToolCall","id":"x","server":"x","tool":"x","status":"completed","arguments":null,"error":null,"result":{"content":[>',
    'qq<]}}}}>',
  ],
} as const;

/** The beginning and the end of a call of a tool, whose id is `$_`. */
const calls = {
  claude: [
    'qq<{"type":"assistant","parent_tool_use_id":null,"message":{"content":[{"type":"tool_use","name":"TodoWrite","id":"$_","input":{"todos":[>',
    'qq<]}}]}}>',
  ],
  codex: [
    'qq<{"method":"item/started","params":{"threadId":"$thread","item":{"type":"mcpToolCall","id":"$_","server":"x","tool":"x","status":"inProgress","error":null,"result":null,"arguments":[>',
    'qq<]}}}>',
  ],
} as const;
const manyCalls = 4000;

/** Two hundred megabytes pass through pipes and a process of the agent. */
const workMs = 150_000;

/** What the agent is warned of. */
async function send(name: string, model: string, lines: readonly string[]): Promise<string[]> {
  const marker = stub.script([{ shell: inject(name, ...lines) }, { say: 'Done.' }]);
  const path = uniqueName(name);
  await agents.spawn(path, { model, description: marker });
  const { run, error } = await agents.idle(path, workMs);
  expect([error?.message, run?.outcome]).toEqual([undefined, 'COMPLETED']);
  expect((await agents.texts(path, 'TOOL_RESULT')).join()).toContain('written');
  return agents.warnings(path);
}

test.each([claudeCode, codex])(
  'lines of 31 MB from $title',
  { timeout: 2 * workMs },
  async ({ name, model }) => {
    const [begin, end] = results[name as keyof typeof results];
    const result = (content: string) => line(begin, content, end);
    const lines = [
      result(`${repeated('[],', megabyte)} . qq{[]}`),
      result(`${repeated('0,', megabyte)} . qq{0}`),
      result(`${repeated('[],', 10 * megabyte)} . qq{[]}`),
      result(`${repeated('[', 31 * megabyte)}`),
      result(`qq<{"type":"text","text":> . ${text('x', 31 * megabyte)} . qq<}>`),
      result(`qq<{"type":"text","text":> . ${text('\\\\\\\\u2028', 31 * megabyte)} . qq<}>`),
      result(
        `qq<{"type":"image","data":> . ${image} . qq<},> . qq<{"type":"text","text":> . ${image} . qq<}>`,
      ),
      result(`qq<{> . ${keys} . qq<}>`),
      result(`${repeated('{\\"type\\":\\"tool_result\\",\\"text\\":\\"\\"},', 8000)} . qq{0}`),
      `qq{\\n} . ${repeated('{}\\n', 200_000)}`,
    ];
    await expectCheap(async () =>
      expect(await send(name, model, lines)).toEqual([
        expect.stringContaining('is not shown: it has more than'),
      ]),
    );
  },
);

test.each([claudeCode, codex])(
  'calls without results from $title',
  { timeout: 2 * workMs },
  async ({ name, model }) => {
    const [begin, end] = calls[name as keyof typeof calls];
    const call = line(begin, repeated('{},', 2000), 'qq<{}>', end);
    const many = `join(qq{}, map { ${call} } 1..${manyCalls})`;
    await expectCheap(async () => expect(await send(name, model, [many])).toEqual([]));
  },
);
