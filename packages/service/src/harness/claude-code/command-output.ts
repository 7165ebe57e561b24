import { join } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import type { AgentProcess, HarnessListener, Work } from '../harness.ts';
import { OpenCalls } from '../open-calls.ts';

/** A command that ends sooner is not followed. */
const checkMs = 300;
/** As much of one command's output is followed. */
const followedBytes = 1024 * 1024;

/** Claude Code has one file for each command that is running. */
const followScript = `while :; do
  for file in "$0"/claude-*/*/"$1"/tasks/*.output; do
    [ -f "$file" ] && exec tail -c +1 -f "$file"
  done
  sleep 0.1
done`;

/**
 * The output of a command while it runs. Claude Code reports it only at the end, but writes it to a file in the agent's
 * home meanwhile. That file is the agent's, so a process in its sandbox reads it; only while someone watches. Files and
 * calls have different names: of several commands at a time, none is followed.
 */
export class CommandOutput {
  readonly #work: Pick<Work, 'homeFolder' | 'processes'>;
  readonly #listener: Pick<HarnessListener, 'partial' | 'isWatched'>;
  readonly #session: string;
  readonly #running = new OpenCalls<true>();
  readonly #followers = new Map<string, AgentProcess>();
  readonly #reported = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(
    work: Pick<Work, 'homeFolder' | 'processes'>,
    listener: Pick<HarnessListener, 'partial' | 'isWatched'>,
    session: string,
  ) {
    this.#work = work;
    this.#listener = listener;
    this.#session = session;
  }

  started(call: string): void {
    if (this.#isClosed) return;
    this.#running.set(call, true);
    this.#timer ??= setInterval(() => this.#check(), checkMs);
  }

  /** Returns whether a part of its output was reported, with the id of the call as its key. */
  ended(call: string): boolean {
    this.#running.delete(call);
    void this.#followers.get(call)?.kill();
    this.#followers.delete(call);
    if (this.#running.size === 0) this.#stopChecks();
    return this.#reported.delete(call);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopChecks();
    this.#running.clear();
    await Promise.all([...this.#followers.values()].map((follower) => follower.kill()));
  }

  #stopChecks(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #check(): void {
    const [call] = this.#running.keys();
    if (call === undefined || this.#running.size > 1 || this.#followers.has(call)) return;
    if (this.#listener.isWatched()) this.#follow(call);
  }

  #follow(call: string): void {
    const { homeFolder, processes } = this.#work;
    const argv = ['/bin/sh', '-c', followScript, join(homeFolder, 'tmp'), this.#session];
    let follower: AgentProcess;
    try {
      follower = processes.start(argv, { gateway: 'never' });
    } catch {
      // The run is about to end, or the machine has no room for another process.
      return;
    }
    this.#followers.set(call, follower);
    const { stdin, stdout, stderr } = follower.child;
    stdin.on('error', () => {}).end();
    stderr.resume();
    const decoder = new StringDecoder('utf8');
    let bytes = 0;
    stdout.on('data', (chunk: Buffer) => {
      if (!this.#running.has(call) || bytes > followedBytes) return;
      bytes += chunk.length;
      if (bytes > followedBytes) return void follower.kill();
      this.#reported.add(call);
      this.#listener.partial({ key: call, type: 'TOOL_RESULT', text: decoder.write(chunk) });
    });
  }
}
