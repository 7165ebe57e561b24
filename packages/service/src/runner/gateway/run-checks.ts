import type { ProtocolName } from '../accounts/account.ts';
import { bounded } from '../report-text.ts';
import { Capacity, type Holder } from './capacity.ts';
import type { ProviderEndpointOptions } from './provider-options.ts';
import { modelIn, providerProtocols } from './provider-protocols.ts';
import type { CheckedRequest } from './provider-request.ts';

type Options = Pick<ProviderEndpointOptions, 'checker' | 'models' | 'renames' | 'webSearch' | 'listener'>;

/** An agent can name any number of models; the timeline shows the first ones. */
const mostWarnings = 20;

/** The checks of one run. All runs share the checker: each run has one request there at a time. */
export class RunChecks {
  readonly #options: Options;
  readonly #protocol: ProtocolName;
  readonly #turn: Capacity;
  readonly #refusedModels = new Set<string>();
  #dropsReasoning = false;

  constructor(options: Options, protocol: ProtocolName) {
    this.#options = options;
    this.#protocol = protocol;
    this.#turn = new Capacity(1, options.checker.turn);
  }

  get dropsReasoning(): boolean {
    return this.#dropsReasoning;
  }

  /** Undefined when the client disconnected. The bytes are used up. */
  async check(
    path: string,
    bytes: Uint8Array<ArrayBuffer>,
    client: Holder,
  ): Promise<CheckedRequest | undefined> {
    const { checker, models, renames, webSearch } = this.#options;
    const release = await this.#turn.take(1, client);
    if (!release) return undefined;
    const model = modelIn(providerProtocols[this.#protocol], path);
    const request = { provider: this.#protocol, path, model, renames, webSearch, bytes };
    const dropsReasoning = this.#dropsReasoning;
    const checked = await checker.check({ ...request, dropsReasoning }).finally(release);
    if (checked.type === 'refused') return checked;
    const forbidden = checked.models.find((name) => !models.includes(name));
    return forbidden === undefined ? checked : this.#refuseModel(forbidden);
  }

  #refuseModel(model: string): CheckedRequest {
    const { models, listener } = this.#options;
    const shown = bounded(model, 100);
    const message = `The gateway refused a request for the model ${JSON.stringify(shown)}: this run may use ${models.join(', ')}.`;
    if (!this.#refusedModels.has(shown) && this.#refusedModels.size < mostWarnings) {
      this.#refusedModels.add(shown);
      listener.item({ type: 'WARNING', text: message, data: { model: shown } });
    }
    return { type: 'refused', status: 403, message };
  }

  /**
   * A checked body again, without reasoning that a provider has encrypted. From now on all requests of the run lack it:
   * nothing in it says which account it was encrypted for.
   */
  async withoutReasoning(
    path: string,
    bytes: Uint8Array<ArrayBuffer>,
    client: Holder,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    this.#dropsReasoning = true;
    const checked = await this.check(path, bytes, client);
    return checked?.type === 'allowed' ? checked.bytes : undefined;
  }
}
