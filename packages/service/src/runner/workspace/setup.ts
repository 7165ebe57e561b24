import { StringDecoder } from 'node:string_decoder';
import type { AgentProcess, HarnessListener, Processes } from '../../harness/harness.ts';
import { heardOut } from '../../harness/heard-out.ts';

type SetupListener = Pick<HarnessListener, 'item' | 'action'>;

const batchMs = 200;
const batchBytes = 16 * 1024;
/** What one command may say into the timeline as it goes on; of the rest only the end is told. */
const streamedBytes = 256 * 1024;
const tailBytes = 8 * 1024;

/** The set-up commands of an environment, one after the other, as the agent's own processes in its workspace. */
export async function runSetup(
  commands: readonly string[],
  processes: Processes,
  listener: SetupListener,
  signal: AbortSignal,
): Promise<void> {
  for (const command of commands) {
    signal.throwIfAborted();
    listener.action(`Setting up: ${command}`);
    listener.item({ type: 'SETUP_OUTPUT', text: `$ ${command}\n`, data: { command } });
    const agentProcess = processes.start(['/bin/sh', '-c', command]);
    const kill = () => void agentProcess.kill();
    signal.addEventListener('abort', kill, { once: true });
    const exit = await streamed(agentProcess, command, listener).finally(() =>
      signal.removeEventListener('abort', kill),
    );
    signal.throwIfAborted();
    if (exit.exitCode === 0) continue;
    const how =
      exit.exitCode === null ? `was ended by ${exit.signal}` : `ended with exit code ${exit.exitCode}`;
    throw new Error(`the set-up command "${command}" ${how}`);
  }
}

async function streamed(agentProcess: AgentProcess, command: string, listener: SetupListener) {
  const output = new SetupOutput((text) => listener.item({ type: 'SETUP_OUTPUT', text, data: { command } }));
  const { stdin, stdout, stderr } = agentProcess.child;
  stdin.on('error', () => {});
  stdin.end();
  for (const stream of [stdout, stderr]) {
    const decoder = new StringDecoder('utf8');
    stream.on('data', (chunk: Buffer) => output.add(decoder.write(chunk)));
  }
  const exit = await heardOut(agentProcess);
  output.end();
  return exit;
}

class SetupOutput {
  readonly #tell: (text: string) => void;
  #batch = '';
  #tail = '';
  #streamed = 0;
  #leftOut = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(tell: (text: string) => void) {
    this.#tell = tell;
  }

  add(text: string): void {
    const room = Math.max(0, streamedBytes - this.#streamed);
    this.#batch += text.slice(0, room);
    this.#streamed += Math.min(room, text.length);
    const tail = this.#tail + text.slice(room);
    this.#tail = tail.slice(-tailBytes);
    this.#leftOut += tail.length - this.#tail.length;
    if (this.#batch.length >= batchBytes) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), batchMs);
  }

  end(): void {
    this.#flush();
    if (this.#tail === '') return;
    const note = this.#leftOut > 0 ? `… ${this.#leftOut} characters left out …\n` : '';
    this.#tell(`${note}${this.#tail}`);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#batch !== '') this.#tell(this.#batch);
    this.#batch = '';
  }
}
