import type { Delivery } from '../contract/code-host.ts';
import type { BodyOf, ReplyOf } from '../contract/routes.ts';
import { type Caller, type CallSettings, readPages } from './caller.ts';
import { type AgentRef, agentIdOf } from './values.ts';

type DeliveryFilter = Omit<BodyOf<'listDeliveries'>, 'name'>;

/** The operations on change requests, and on the integrations with code hosts. */
export class CodeHostClient {
  readonly #caller: Caller;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** Opens a change request for the agent's branch at its code host, or returns the one that is open. */
  openChangeRequest(
    agent: AgentRef,
    request: Omit<BodyOf<'openChangeRequest'>, 'agentId'> = {},
    settings: CallSettings = {},
  ): Promise<ReplyOf<'openChangeRequest'>> {
    return this.#caller.call('openChangeRequest', { agentId: agentIdOf(agent), ...request }, settings);
  }

  /** Compares one change request with its host, or all that are open. */
  syncChangeRequests(
    filter: BodyOf<'syncChangeRequests'> = {},
    settings: CallSettings = {},
  ): Promise<ReplyOf<'syncChangeRequests'>> {
    return this.#caller.call('syncChangeRequests', filter, settings);
  }

  /** One page of the deliveries that an integration received, newest first. */
  listDeliveries(
    integration: string,
    filter: DeliveryFilter = {},
    settings: CallSettings = {},
  ): Promise<ReplyOf<'listDeliveries'>> {
    return this.#caller.call('listDeliveries', { name: integration, ...filter }, settings);
  }

  /** All deliveries that an integration received, page by page. */
  deliveries(
    integration: string,
    filter: Omit<DeliveryFilter, 'pageToken'> = {},
    settings: CallSettings = {},
  ): AsyncGenerator<Delivery, void, void> {
    return readPages(undefined, (pageToken) =>
      this.listDeliveries(integration, { ...filter, pageToken }, settings),
    );
  }

  /** Processes a delivery again. */
  redeliver(
    integration: string,
    deliveryId: string,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'redeliver'>> {
    return this.#caller.call('redeliver', { name: integration, deliveryId }, settings);
  }

  /** Checks the credential of an integration, its permissions and its webhook. */
  testIntegration(integration: string, settings: CallSettings = {}): Promise<ReplyOf<'testIntegration'>> {
    return this.#caller.call('testIntegration', { name: integration }, settings);
  }
}
