import type { Cause, FoundTrigger, Person, TriggerSubject } from './host.ts';

/** Who did it, and when. */
export interface SubjectEvent {
  readonly sender: Person;
  readonly at: string;
}

/** Those of the list that got what was looked for since then, by their newest event of that kind. */
export async function happenedSince(
  subjects: readonly TriggerSubject[],
  since: string,
  what: Cause,
  eventsOf: (subject: TriggerSubject['subject']) => Promise<readonly SubjectEvent[]>,
): Promise<FoundTrigger[]> {
  const found: FoundTrigger[] = [];
  for (const trigger of subjects) {
    const events = (await eventsOf(trigger.subject)).filter(({ at }) => Date.parse(at) >= Date.parse(since));
    const newest = events.reduce<SubjectEvent | null>(
      (last, event) => (last && Date.parse(last.at) > Date.parse(event.at) ? last : event),
      null,
    );
    if (newest) found.push({ ...trigger, ...what, ...newest });
  }
  return found;
}
