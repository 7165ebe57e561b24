import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { until } from './async.ts';

/** A span as it arrived, with its attributes as an object. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  readonly kind: number;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly {
    readonly traceId: string;
    readonly spanId: string;
    readonly attributes: Readonly<Record<string, unknown>>;
  }[];
  readonly hasFailed: boolean;
  readonly service: unknown;
}

type Check = (value: unknown, at: string) => void;

const fail = (at: string, expected: string, value: unknown): never => {
  throw new Error(`${at}: expected ${expected}; got ${JSON.stringify(value)}`);
};

/** A message of the protocol has no fields but these. */
const message =
  (fields: Readonly<Record<string, Check>>, ...required: string[]): Check =>
  (value, at) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) fail(at, 'an object', value);
    for (const name of required) if (!(name in (value as object))) fail(at, `the field ${name}`, value);
    for (const [name, inner] of Object.entries(value as object))
      (fields[name] ?? (() => fail(`${at}.${name}`, 'no such field', inner)))(inner, `${at}.${name}`);
  };
const listOf =
  (item: Check): Check =>
  (value, at) => {
    if (!Array.isArray(value)) return fail(at, 'a list', value);
    value.forEach((one, index) => {
      item(one, `${at}[${index}]`);
    });
  };
const matching =
  (pattern: RegExp): Check =>
  (value, at) =>
    void ((typeof value === 'string' && pattern.test(value)) || fail(at, String(pattern), value));
const text: Check = (value, at) => void (typeof value === 'string' || fail(at, 'a string', value));
const count: Check = (value, at) =>
  void ((Number.isInteger(value) && Number(value) >= 0) || fail(at, 'a count', value));
const double: Check = (value, at) => void (typeof value === 'number' || fail(at, 'a number', value));
const boolean: Check = (value, at) => void (typeof value === 'boolean' || fail(at, 'a boolean', value));
const upTo =
  (most: number): Check =>
  (value, at) =>
    void (
      (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= most) ||
      fail(at, `0 to ${most}`, value)
    );

const anyValue: Check = (value, at) => {
  message({
    stringValue: text,
    boolValue: boolean,
    intValue: matching(/^-?\d+$/),
    doubleValue: double,
    arrayValue: message({ values: listOf(anyValue) }),
    kvlistValue: message({ values: listOf(keyValue) }),
    bytesValue: text,
  })(value, at);
  if (Object.keys(value as object).length !== 1) fail(at, 'one value', value);
};
const keyValue: Check = (value, at) => message({ key: text, value: anyValue }, 'key', 'value')(value, at);

/** An id of zeros is invalid. In JSON the ids are hexadecimal. */
const traceId = matching(/^(?!0{32})[\da-f]{32}$/);
const spanId = matching(/^(?!0{16})[\da-f]{16}$/);
const attributes = listOf(keyValue);
const dropped = { droppedAttributesCount: count };
const nanoseconds = matching(/^[1-9]\d{18}$/);

/** The fields of opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest, as they are published. */
const exportRequest = message(
  {
    resourceSpans: listOf(
      message({
        schemaUrl: text,
        resource: message({ attributes, ...dropped, entityRefs: listOf(() => {}) }),
        scopeSpans: listOf(
          message({
            schemaUrl: text,
            scope: message({ name: text, version: text, attributes, ...dropped }),
            spans: listOf(
              message(
                {
                  ...{ traceId, spanId, parentSpanId: spanId, traceState: text, name: text, attributes },
                  ...{ ...dropped, droppedEventsCount: count, droppedLinksCount: count },
                  flags: upTo(2 ** 32 - 1),
                  kind: upTo(5),
                  startTimeUnixNano: nanoseconds,
                  endTimeUnixNano: nanoseconds,
                  events: listOf(message({ timeUnixNano: nanoseconds, name: text, attributes, ...dropped })),
                  links: listOf(
                    message(
                      { traceId, spanId, traceState: text, attributes, ...dropped, flags: upTo(2 ** 32 - 1) },
                      'traceId',
                      'spanId',
                    ),
                  ),
                  status: message({ message: text, code: upTo(2) }),
                },
                ...['traceId', 'spanId', 'name', 'kind', 'startTimeUnixNano', 'endTimeUnixNano'],
              ),
            ),
          }),
        ),
      }),
    ),
  },
  'resourceSpans',
);

// biome-ignore lint/suspicious/noExplicitAny: its shape was checked
type Checked = any;

const plainValue = (value: Checked): unknown => {
  if (value.arrayValue) return value.arrayValue.values.map(plainValue);
  if (value.intValue !== undefined) return Number(value.intValue);
  return value.stringValue ?? value.boolValue ?? value.doubleValue;
};

function valuesOf(pairs: readonly Checked[] = []): Record<string, unknown> {
  const names = pairs.map(({ key }) => key);
  if (new Set(names).size < names.length) throw new Error(`an attribute occurs twice: ${names}`);
  return Object.fromEntries(pairs.map(({ key, value }) => [key, plainValue(value)]));
}

function spansIn(request: Checked): ReceivedSpan[] {
  return request.resourceSpans.flatMap(({ resource, scopeSpans }: Checked) =>
    scopeSpans.flatMap(({ spans }: Checked) =>
      spans.map((span: Checked) => ({
        ...{ traceId: span.traceId, spanId: span.spanId, name: span.name, kind: span.kind },
        parentSpanId: span.parentSpanId ?? '',
        startNs: BigInt(span.startTimeUnixNano),
        endNs: BigInt(span.endTimeUnixNano),
        attributes: valuesOf(span.attributes),
        links: (span.links ?? []).map((link: Checked) => ({
          traceId: link.traceId,
          spanId: link.spanId,
          attributes: valuesOf(link.attributes),
        })),
        hasFailed: span.status?.code === 2,
        service: valuesOf(resource.attributes)['service.name'],
      })),
    ),
  );
}

/** A collector that takes OTLP/HTTP in JSON, and refuses whatever the protocol does not have. */
export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = [];
  /** What was wrong with a request. */
  readonly problems: string[] = [];
  readonly requests: IncomingMessage[] = [];
  /** All that arrived, as text. */
  received = '';
  /** What it answers with; 0: it does not answer. */
  status = 200;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    server.on('request', async (request, response) => {
      try {
        this.requests.push(request);
        const bytes = await buffer(request);
        const json = (request.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString();
        if (this.status === 200) this.#take(request, json);
      } catch (error) {
        this.problems.push(String(error));
      }
      if (this.status > 0) response.writeHead(this.status, { 'content-type': 'application/json' }).end('{}');
    });
  }

  static async start(): Promise<OtlpReceiver> {
    const server = createServer();
    const receiver = new OtlpReceiver(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The spans of a trace when its root has arrived, which is the last of the run. */
  async trace(traceIdOfRun: string): Promise<ReceivedSpan[]> {
    const ofTrace = () => this.spans.filter((span) => span.traceId === traceIdOfRun);
    await until(
      `the root of the trace ${traceIdOfRun}`,
      async () => ofTrace().filter(({ parentSpanId }) => parentSpanId === '').length,
      (roots) => roots === 1,
      50_000,
    );
    return ofTrace();
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #take({ method, url, headers }: IncomingMessage, json: string): void {
    if (method !== 'POST' || url !== '/v1/traces')
      throw new Error(`not a request for traces: ${method} ${url}`);
    if (headers['content-type'] !== 'application/json') throw new Error(`type: ${headers['content-type']}`);
    const request: unknown = JSON.parse(json);
    exportRequest(request, '');
    this.received += json;
    this.spans.push(...spansIn(request));
  }
}
