/** An agent that a runner could claim. */
interface Candidate {
  readonly tenant: number;
  /** Its model is a rehearsal model, which needs no provider. */
  readonly rehearsal: boolean;
  /** The most runs of its tenant that one runner of this pool may hold; null without a limit. */
  readonly max_runs: number | null;
  /** How many runs of its tenant the runner holds. */
  readonly held: number;
}

interface Slots {
  readonly real: number;
  readonly rehearsed: number;
}

/** A runner that rehearses every model puts all runs into its slots for rehearsals. */
export const freeSlots = ({ free, rehearses }: { free: Slots; rehearses?: boolean | undefined }): Slots => ({
  real: rehearses ? free.rehearsed : free.real,
  rehearsed: free.rehearsed,
});

/** Takes candidates in order, as many as there are slots for and no more of a tenant than its pool allows. */
export function chooseClaims<C extends Candidate>(
  candidates: readonly C[],
  free: Slots,
  rehearses: boolean,
): C[] {
  const left = { ...free };
  const taken = new Map<number, number>();
  return candidates.filter((candidate) => {
    const kind = rehearses || candidate.rehearsal ? 'rehearsed' : 'real';
    const ofTenant = taken.get(candidate.tenant) ?? 0;
    const isAllowed = candidate.max_runs === null || candidate.held + ofTenant < candidate.max_runs;
    if (left[kind] <= 0 || !isAllowed) return false;
    left[kind] -= 1;
    taken.set(candidate.tenant, ofTenant + 1);
    return true;
  });
}
