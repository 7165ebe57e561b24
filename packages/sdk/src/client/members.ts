import type { Member } from '../contract/member.ts';
import type { BodyOf } from '../contract/routes.ts';
import type { Setup } from '../contract/setup.ts';
import { type Caller, type CallSettings, type Page, readPages } from './caller.ts';
import { PoolRunnerClient } from './pool-runners.ts';

/** The operations on the people of a tenant. */
export class MemberClient extends PoolRunnerClient {
  readonly #caller: Caller;

  constructor(caller: Caller) {
    super(caller);
    this.#caller = caller;
  }

  /** A page of the accounts of a tenant. For admins. */
  listMembers(request: BodyOf<'listMembers'> = {}, settings: CallSettings = {}): Promise<Page<Member>> {
    return this.#caller.call('listMembers', request, settings);
  }

  /** All of them, page by page. */
  members(
    request: Omit<BodyOf<'listMembers'>, 'pageToken'> = {},
    settings: CallSettings = {},
  ): AsyncGenerator<Member, void, void> {
    return readPages('', (pageToken) => this.listMembers({ ...request, pageToken }, settings));
  }

  /** Disables or enables an account, or sets its role. */
  updateMember(request: BodyOf<'updateMember'>, settings: CallSettings = {}): Promise<Member> {
    return this.#caller.call('updateMember', request, settings);
  }

  /** What is set up, and what is missing. `dismissed` hides or shows that list in the dashboard. */
  setup(request: BodyOf<'setup'> = {}, settings: CallSettings = {}): Promise<Setup> {
    return this.#caller.call('setup', request, settings);
  }
}
