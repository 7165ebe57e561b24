import { within } from '../../harness/agent-process.ts';

/** How long a call of a tool waits until the harness has reported it. */
const seenMs = 1_000;

/** Calls of the agent's tools: how many the harness reported, and how many arrived at the gateway. */
export class ToolCalls {
  readonly #counts = new Map<string, { seen: number; arrived: number }>();
  readonly #waiting = new Set<() => void>();

  seen(tool: string): void {
    this.#of(tool.replace(/^mcp__muster__/, '')).seen += 1;
    for (const look of this.#waiting) look();
  }

  async whenSeen(tool: string): Promise<void> {
    const count = this.#of(tool);
    count.arrived += 1;
    const number = count.arrived;
    if (count.seen >= number) return;
    let look = (): void => {};
    const seen = new Promise<void>((resolve) => {
      look = () => count.seen >= number && resolve();
    });
    this.#waiting.add(look);
    await within(seenMs, seen);
    this.#waiting.delete(look);
    // One that is never reported must not delay those after it.
    if (count.seen < number) count.arrived -= 1;
  }

  #of(tool: string): { seen: number; arrived: number } {
    const count = this.#counts.get(tool) ?? { seen: 0, arrived: 0 };
    if (this.#counts.size < mostTools) this.#counts.set(tool, count);
    return count;
  }
}

/** An agent can name any number of tools that do not exist. */
const mostTools = 200;
