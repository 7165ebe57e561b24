import { once } from 'node:events';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream';
import { modelFamily } from '../../lib/models.ts';
import { AccountError, type AuthorizedCall, type ProtocolName, providerFacts } from '../accounts/account.ts';
import type { NamedAccount } from '../accounts/provider-accounts.ts';
import type { ChatSpan } from '../run/run-trace.ts';
import { Capacity } from './capacity.ts';
import { MeasuredRequest } from './measured-request.ts';
import { formatOf, Meter } from './meter.ts';
import { type Again, answerHeaders, type Call, isRepeated, noBody, type RateLimit } from './provider-call.ts';
import {
  accountFailure,
  areCredentialsRefused,
  errorBody,
  failureOf,
  isForeignReasoning,
  type ProviderFailure,
  statusOfEvent,
  withoutKeys,
} from './provider-errors.ts';
import type { EndpointFailure, ProviderEndpointOptions } from './provider-options.ts';
import {
  type ProviderProtocol,
  providerProtocols,
  refuse,
  requestHeaders,
  requestQuery,
} from './provider-protocols.ts';
import { largestBodyBytes } from './provider-request.ts';
import { receiveBody } from './request-body.ts';
import { likelyInputTokens } from './request-size.ts';
import { RunAccounts } from './run-accounts.ts';
import { RunChecks } from './run-checks.ts';
import { Spending } from './spending.ts';
import { requestUpstream, statusOf } from './upstream.ts';

/** Bytes of requests that one run may have in memory: one of the largest, and some small ones. */
const mostRunBytes = largestBodyBytes + 16 * 1024 * 1024;
/** A harness makes one call at a time, or a few. */
const mostCalls = 32;
/** An agent can make any number of requests; the timeline shows the first waits. */
const mostWarnings = 20;

/** Without it Claude Code would retry for minutes. */
const doNotRetry = { 'x-should-retry': 'false' } as const;

/** The run's access to its provider: forwards requests with the account's credentials, and meters the answers. */
export class ProviderEndpoint {
  /** Why the provider's last answer failed on its side; undefined when it did not. */
  outage: string | undefined;
  readonly #options: ProviderEndpointOptions;
  readonly #protocol: ProviderProtocol;
  readonly #spending: Spending;
  readonly #protocolName: ProtocolName;
  /** In messages. */
  readonly #title: string;
  readonly #cancels = new Set<() => void>();
  readonly #memory: Capacity;
  readonly #checks: RunChecks;
  #calls = 0;
  #waits = 0;
  /** Set once the provider or a budget has ended the run; every later request gets the same answer. */
  #refusal: { readonly status: number; readonly message: string } | undefined;
  readonly #accounts: RunAccounts;

  constructor(options: ProviderEndpointOptions) {
    this.#options = options;
    this.#accounts = new RunAccounts(options);
    this.#title = providerFacts[options.name].title;
    this.#protocolName = providerFacts[options.name].protocol;
    this.#protocol = providerProtocols[this.#protocolName];
    this.#spending = new Spending(options);
    this.#memory = new Capacity(mostRunBytes, options.memory);
    this.#checks = new RunChecks(options, this.#protocolName);
  }

  get account(): string | undefined {
    return this.#accounts.current;
  }

  /** `path` is relative to the URL of the provider's API. */
  handle(request: IncomingMessage, response: ServerResponse, path: string, query: string): void {
    const { name, accounts, log } = this.#options;
    const signature = `${request.method} ${path}`;
    if (!accounts)
      return this.#answer(
        response,
        404,
        `This runner has no key for ${this.#title}; its models are not available`,
      );
    if (!this.#protocol.calls.test(signature))
      return this.#answer(response, 404, `The gateway does not forward ${signature} to ${this.#title}`);
    if (this.#refusal) return this.#refuse(response, this.#refusal);
    if (this.#calls >= mostCalls) {
      const message = `This run has ${mostCalls} calls to ${this.#title} in progress; retry when one has ended`;
      return this.#answer(response, 429, message, { 'retry-after': '1' });
    }
    this.#calls += 1;
    // Streams, limits, credit and the trace each wait for its end.
    response.setMaxListeners(20);
    response.once('close', () => {
      this.#calls -= 1;
    });
    const isModelCall = this.#protocol.modelCalls.test(signature);
    const how = { path, query: requestQuery(this.#protocol, query), isModelCall, isRenewed: false };
    const call = { request, response, ...how, ...noBody };
    if (request.method === 'GET') request.resume();
    const handled = request.method === 'GET' ? this.#begin(call) : this.#admit(call);
    handled.catch((error: unknown) => {
      log.error({ provider: name, err: error }, 'provider request failed');
      response.destroy();
    });
  }

  /** Ends every call in progress; its usage so far is reported. */
  close(): void {
    for (const cancel of [...this.#cancels]) cancel();
    this.#accounts.close();
  }

  #refuse(response: ServerResponse, { status, message }: { status: number; message: string }): void {
    this.#answer(response, status, message, doNotRetry);
  }

  #answer(response: ServerResponse, status: number, message: string, headers?: OutgoingHttpHeaders): void {
    refuse(this.#protocolName, response, status, message, headers);
  }

  /** Checks the whole request before any of it is forwarded. */
  async #admit(call: Omit<Call, 'account' | 'asked'>): Promise<void> {
    const { receiveMs } = this.#options;
    const { request, response, path } = call;
    const received = await receiveBody(request, response, {
      memory: this.#memory,
      mostBytes: largestBodyBytes,
      withinMs: receiveMs,
    });
    if (!received) return;
    if (received.type === 'refused') {
      const headers = received.status === 408 ? { connection: 'close' } : {};
      return this.#answer(response, received.status, received.message, headers);
    }
    try {
      const isWithoutReasoning = this.#checks.dropsReasoning;
      const checked = await this.#checks.check(path, received.bytes, response);
      if (!checked || response.destroyed) return;
      if (checked.type === 'refused') return this.#answer(response, checked.status, checked.message);
      const { bytes: body, type: _allowed, ...asked } = checked;
      await this.#begin({ ...call, ...asked, body, model: asked.models[0] ?? '', isWithoutReasoning });
    } finally {
      received.release();
    }
  }

  async #begin(call: Omit<Call, 'account' | 'asked'>): Promise<void> {
    const { response, model, isModelCall } = call;
    if (isModelCall && !(await this.#reserve(call))) return;
    if (this.#refusal) return this.#refuse(response, this.#refusal);
    const account = isModelCall ? this.#accounts.take(model) : this.#accounts.peek(model);
    if (account) return this.#forward({ ...call, account, asked: new Set([account.id]) });
    const failure = this.#accounts.noneFor(model);
    if (isModelCall) this.#endRun(failure, 404);
    this.#refuse(response, { status: 404, message: failure.message });
  }

  /** Whether the call may be sent. The run ends when a budget above it is spent. */
  async #reserve(call: Omit<Call, 'account' | 'asked'>): Promise<boolean> {
    if (this.#refusal) return true;
    const refused = await this.#spending.reserve(call);
    if (refused) this.#endRun({ type: 'budget', message: refused.refusal }, 403);
    return !call.response.destroyed;
  }

  /**
   * Waits for a rate limit that ends soon, so that the harness does not notice it. Resolves when the request is no
   * longer needed.
   */
  async #forward(call: Call): Promise<void> {
    const { limitWaitMs, listener } = this.#options;
    const { response, isModelCall } = call;
    for (let leftMs = isModelCall ? limitWaitMs : 0; !response.destroyed; ) {
      if (this.#refusal) return this.#refuse(response, this.#refusal);
      if (isModelCall) listener.action('Waiting for the model');
      const limit = await this.#attempt(call, leftMs);
      if (!limit) return;
      if (limit === 'renewed' || limit === 'switched') continue;
      leftMs -= limit.waitMs;
      await this.#waitFor(limit, response);
    }
  }

  async #waitFor({ waitMs, message }: RateLimit, response: ServerResponse): Promise<void> {
    const { listener, name, observed } = this.#options;
    const seconds = Math.ceil(waitMs / 1_000);
    observed.add({ what: 'limit', provider: name, seconds: waitMs / 1_000 });
    listener.action(`Rate limited by ${this.#title}: retrying in ${seconds} s`);
    this.#waits += 1;
    if (this.#waits <= mostWarnings)
      listener.item({ type: 'WARNING', text: `${message}. The gateway retries in ${seconds} s.` });
    const cancel = (): void => void response.destroy();
    this.#cancels.add(cancel);
    const signal = AbortSignal.timeout(waitMs);
    if (!response.destroyed) await once(response, 'close', { signal }).catch(() => {});
    this.#cancels.delete(cancel);
  }

  /** Resolves when the request is done; with a reason if it has to be sent again. */
  async #attempt(call: Call, leftMs: number): Promise<Again | undefined> {
    const { request, response, account, path, query, body } = call;
    const method = request.method ?? 'POST';
    let authorized: AuthorizedCall;
    try {
      authorized = await account.authorize({
        method,
        path,
        query,
        headers: requestHeaders(this.#protocol, request, body, this.#options.token),
        body,
      });
    } catch (error) {
      if (!(error instanceof AccountError)) throw error;
      return this.#withoutCredentials(call, error);
    }
    return response.destroyed ? undefined : this.#send(call, authorized, leftMs);
  }

  /** The account has no credentials. Where a person has to fix that, another account takes over, or the run ends. */
  #withoutCredentials(call: Call, error: AccountError): Again | undefined {
    const { response, account, isModelCall, model } = call;
    const message = withoutKeys(error.message, account.secrets());
    const { code } = error;
    const outcome = code ? 'key_refused' : 'unreachable';
    const { name: provider, observed } = this.#options;
    if (isModelCall) observed.add({ what: 'request', provider, model: modelFamily(model), outcome });
    if (!code) {
      this.outage = `${this.#title} could not be reached.`;
      this.#answer(response, 502, message);
      return;
    }
    const { name, runnerName } = this.#options;
    const failure = accountFailure({ provider: name, setting: account.setting, runnerName }, code, message);
    if (isModelCall && this.#switch(call, failure)) return 'switched';
    if (isModelCall) this.#endRun(this.#accounts.whenNoneIsLeft(model, failure), 401);
    this.#refuse(response, { status: 401, message: failure.message });
  }

  /** Whether another account takes over. */
  #switch(call: Call, failure: ProviderFailure): boolean {
    const next = this.#accounts.replace(call.account, call.model, failure);
    if (!next || call.asked.has(next.id)) return false;
    call.asked.add(next.id);
    call.account = next;
    call.isRenewed = false;
    return true;
  }

  /** Reasoning in the session may have been encrypted for another account. */
  async #dropReasoning(call: Call): Promise<boolean> {
    const { account, path, body, response } = call;
    if (call.isWithoutReasoning || !this.#accounts.areSeveral) return false;
    const reduced = await this.#checks.withoutReasoning(path, body, response);
    if (!reduced) return false;
    const text = `${account.id} can't read the encrypted reasoning of another account: this run leaves it out.`;
    this.#options.listener.item({ type: 'WARNING', text });
    call.body = reduced;
    call.isWithoutReasoning = true;
    return true;
  }

  async #renew(call: Call, refused: AuthorizedCall): Promise<Again | undefined> {
    call.isRenewed = true;
    try {
      await call.account.renew?.(refused);
      return 'renewed';
    } catch (error) {
      if (!(error instanceof AccountError)) throw error;
      return this.#withoutCredentials(call, error);
    }
  }

  #send(call: Call, authorized: AuthorizedCall, leftMs: number): Promise<Again | undefined> {
    const { stallMs } = this.#options;
    const { request, response, isModelCall } = call;
    const { url } = authorized;
    const sentMs = Date.now();
    const outgoing = requestUpstream(url, request.method ?? 'POST', authorized.headers);
    const span = isModelCall ? this.#measure(call) : undefined;
    let meter: Meter | undefined;
    const cancel = (): void => {
      meter?.settle();
      span?.end('cancelled');
      outgoing.destroy();
      response.destroy();
    };
    const stall = setTimeout(() => {
      // The client does not read: nothing can arrive.
      if (response.writableNeedDrain) return void stall.refresh();
      this.#stalled();
      span?.failed('stalled');
      cancel();
    }, stallMs);
    const release = (): void => {
      clearTimeout(stall);
      this.#cancels.delete(cancel);
      response.off('close', onClose);
    };
    const onClose = (): void => {
      release();
      if (!response.writableFinished) cancel();
    };
    this.#cancels.add(cancel);
    response.prependListener('close', onClose);
    if (isModelCall) this.#spending.watch(call, outgoing, span);
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      span?.end(error.code ?? error.name);
      if (!response.destroyed) this.#unreachable(call, url, error);
    });
    return new Promise((resolve) => {
      outgoing.once('response', (answer) => {
        stall.refresh();
        const status = statusOf(answer);
        if (isModelCall) this.#answered(call, status, sentMs);
        if (status >= 400) {
          const failing = this.#handleError(call, authorized, answer, leftMs);
          failing.then((again) => isRepeated(again, span, status) && release(), cancel);
          return resolve(failing.catch(() => undefined));
        }
        resolve(undefined);
        meter = this.#meter(call, answer, () => stall.refresh(), span);
        response.writeHead(status, answerHeaders(answer));
        response.flushHeaders();
        pipeline(answer, meter, response, (error) => span?.end(error ? 'cancelled' : undefined));
      });
      outgoing.once('close', () => resolve(undefined));
      // Once sent, the body is needed again only after a rate limit, or with other credentials.
      if (leftMs <= 0 && !this.#mayRenew(call) && !this.#accounts.areSeveral)
        outgoing.once('finish', () => resolve(undefined));
      outgoing.end(call.body);
    });
  }

  #answered({ account }: Call, status: number, sentMs: number): void {
    this.outage = status >= 500 ? `${this.#title} answered ${status}.` : undefined;
    if (status >= 400) return;
    this.#accounts.accepted(account, sentMs);
    this.#options.onAccepted();
  }

  #measure({ model }: Call): MeasuredRequest {
    const { name: provider, observed, trace, pricedAs = {} } = this.#options;
    const priced = Object.hasOwn(pricedAs, model) ? (pricedAs[model] ?? model) : model;
    return new MeasuredRequest(observed, { provider, model: priced }, trace?.chat(provider, model));
  }

  #stalled(): void {
    const { stallMs, listener } = this.#options;
    const text = `${this.#title} sent nothing for ${stallMs / 1_000} s: the gateway ended the request, which can be retried.`;
    listener.item({ type: 'WARNING', text });
    this.outage = `${this.#title} stalled.`;
  }

  #unreachable({ response, account }: Call, { host }: URL, error: NodeJS.ErrnoException): void {
    const { name, log } = this.#options;
    const reason = withoutKeys(error.code ?? error.message, account.secrets());
    log.warn({ provider: name, host, reason }, 'provider unreachable');
    this.outage = `${this.#title} could not be reached.`;
    this.#answer(response, 502, `The runner can't reach ${this.#title} at ${host}: ${reason}`);
  }

  #mayRenew({ account, isRenewed }: Call): boolean {
    return account.renew !== undefined && !isRenewed;
  }

  /**
   * Reads an error whole and removes credentials before it is forwarded. Returns a limit that ends within `leftMs`, and
   * whether refused credentials were renewed: nothing was sent to the client yet, so the request can be repeated.
   */
  async #handleError(
    call: Call,
    authorized: AuthorizedCall,
    answer: IncomingMessage,
    leftMs: number,
  ): Promise<Again | undefined> {
    const { response, account, isModelCall } = call;
    const body = withoutKeys(await errorBody(answer), account.secrets());
    const status = statusOf(answer);
    if (this.#mayRenew(call) && areCredentialsRefused({ status, headers: answer.headers, body }))
      return this.#renew(call, authorized);
    if (isForeignReasoning(status, body) && (await this.#dropReasoning(call))) return 'switched';
    const failure = isModelCall ? this.#failureOf(account, answer, status, body) : undefined;
    if (failure?.type === 'limit' && failure.waitMs <= leftMs) return failure;
    if (failure && !response.destroyed && this.#switch(call, failure)) return 'switched';
    if (failure) this.#endRun(this.#accounts.whenNoneIsLeft(call.model, failure), status);
    const { 'content-length': _length, ...headers } = answerHeaders(answer);
    response.writeHead(status, { ...headers, ...(failure && doNotRetry) }).end(body);
    return undefined;
  }

  #failureOf(
    { setting }: NamedAccount,
    { headers }: IncomingMessage,
    status: number,
    body: string,
  ): ProviderFailure | undefined {
    const { name, runnerName } = this.#options;
    return failureOf({ provider: name, setting, status, headers, body, runnerName }, new Date());
  }

  #endRun(failure: EndpointFailure, status: number): void {
    const { name, onFailure, log } = this.#options;
    if (failure.type === 'budget') log.info({ provider: name }, 'budget refused a request');
    else log.warn({ provider: name, status, failure: failure.type }, 'provider refused a request');
    this.#refusal = { status, message: failure.message };
    onFailure(failure);
  }

  #meter(call: Call, answer: IncomingMessage, onByte: () => void, span: ChatSpan | undefined): Meter {
    const { account, isModelCall, model } = call;
    return new Meter({
      reader: this.#protocol.reader(),
      format: formatOf(answer.headers['content-type']),
      onByte: () => {
        span?.firstByte();
        onByte();
      },
      inputTokens: isModelCall ? likelyInputTokens(call) : undefined,
      onUsage: (usage) => this.#spending.used(usage, call, span),
      onFailure: (event) => {
        const status = isModelCall ? statusOfEvent(event) : undefined;
        span?.failed(String(status ?? '_OTHER'));
        if (!status) return;
        // As the body of an answer with the same error.
        const body = withoutKeys(JSON.stringify(event.response ?? event), account.secrets());
        const failure = this.#failureOf(account, answer, status, body);
        if (failure) this.#endRun(this.#accounts.whenAnswered(account, model, failure), status);
      },
    });
  }
}
