import type { BodyOf } from '../contract/routes.ts';
import type { ScheduleFire } from '../contract/schedule.ts';
import { type Caller, type CallSettings, type Page, readPages } from './caller.ts';

/** What schedules of the catalog did. */
export class ScheduleClient {
  readonly #caller: Caller;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** Fires it now, also if it is paused. It is not sent again when the reply was lost: it may have fired. */
  run(name: string, settings: CallSettings = {}): Promise<ScheduleFire> {
    return this.#caller.call('runSchedule', { name }, settings);
  }

  /** One page of what fired and what did not, newest first. */
  history(
    name: string,
    request: Omit<BodyOf<'scheduleHistory'>, 'name'> = {},
    settings: CallSettings = {},
  ): Promise<Page<ScheduleFire>> {
    return this.#caller.call('scheduleHistory', { ...request, name }, settings);
  }

  /** All of it, page by page. */
  historyAll(name: string, settings: CallSettings = {}): AsyncGenerator<ScheduleFire, void, void> {
    return readPages(undefined, (pageToken) => this.history(name, { pageToken }, settings));
  }
}
