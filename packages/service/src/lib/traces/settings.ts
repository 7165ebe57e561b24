import { version } from '../version.ts';
import type { SpanContext } from './tracer.ts';

/** What the standard variables of OpenTelemetry say. */
export interface ExportSettings {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly isCompressed: boolean;
  readonly timeoutMs: number;
  readonly resource: Readonly<Record<string, string>>;
  readonly isSampled: Sampler;
  readonly queueSize: number;
  readonly batchSize: number;
  readonly delayMs: number;
  readonly capturesContent: boolean;
}

type Sampler = (traceId: string, parent: SpanContext | undefined) => boolean;
type Environment = Readonly<Record<string, string | undefined>>;
type Warn = (text: string) => void;

/**
 * Undefined if the variables turn tracing off, or ask for a protocol or address that can't be used. A value that is
 * not understood is reported and its default applies, as OpenTelemetry demands: other programs may share the variables.
 */
export function exportSettings(
  env: Environment,
  serviceName: string,
  warn: Warn,
): ExportSettings | undefined {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || env.OTEL_TRACES_EXPORTER === 'none')
    return undefined;
  const protocol = ofTraces(env, 'PROTOCOL');
  if (protocol?.startsWith('grpc')) {
    warn(`OTEL_EXPORTER_OTLP_PROTOCOL: Muster sends http/json; got "${protocol}". No traces are sent.`);
    return undefined;
  }
  const url = urlIn(env);
  if (url === undefined) {
    warn('OTEL_EXPORTER_OTLP_ENDPOINT: expected a URL with http or https. No traces are sent.');
    return undefined;
  }
  const count = (name: string, fallback: number): number => {
    const value = env[name] ? Number(env[name]) : fallback;
    if (Number.isInteger(value) && value > 0 && value <= largestSetting) return value;
    warn(`${name}: expected a whole number from 1 to ${largestSetting}; got "${env[name]}"`);
    return fallback;
  };
  const timeoutName = env.OTEL_EXPORTER_OTLP_TRACES_TIMEOUT
    ? 'OTEL_EXPORTER_OTLP_TRACES_TIMEOUT'
    : 'OTEL_EXPORTER_OTLP_TIMEOUT';
  const queueSize = count('OTEL_BSP_MAX_QUEUE_SIZE', 2048);
  return {
    url,
    headers: {
      ...pairsIn(env.OTEL_EXPORTER_OTLP_HEADERS),
      ...pairsIn(env.OTEL_EXPORTER_OTLP_TRACES_HEADERS),
    },
    isCompressed: ofTraces(env, 'COMPRESSION') === 'gzip',
    timeoutMs: Math.min(count(timeoutName, 10_000), count('OTEL_BSP_EXPORT_TIMEOUT', 30_000)),
    resource: resourceIn(env, serviceName),
    isSampled: samplerIn(env, warn),
    queueSize,
    batchSize: Math.min(count('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512), queueSize),
    delayMs: count('OTEL_BSP_SCHEDULE_DELAY', 5_000),
    capturesContent: env.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT?.toLowerCase() === 'true',
  };
}

const largestSetting = 1_000_000;

const ofTraces = (env: Environment, name: string): string | undefined =>
  env[`OTEL_EXPORTER_OTLP_TRACES_${name}`] || env[`OTEL_EXPORTER_OTLP_${name}`];

function urlIn(env: Environment): string | undefined {
  const base = env.OTEL_EXPORTER_OTLP_ENDPOINT?.replace(/\/+$/, '');
  const url = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || `${base}/v1/traces`;
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol) ? url : undefined;
}

/** Of a list such as `a=1,b=two%20words`. */
function pairsIn(text = ''): Record<string, string> {
  const pairs = text.split(',').flatMap((pair) => {
    const at = pair.indexOf('=');
    return at > 0 ? [[pair.slice(0, at).trim(), decoded(pair.slice(at + 1).trim())] as const] : [];
  });
  return Object.fromEntries(pairs);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function resourceIn(env: Environment, serviceName: string): Record<string, string> {
  return {
    'service.name': serviceName,
    'service.version': version,
    ...pairsIn(env.OTEL_RESOURCE_ATTRIBUTES),
    ...(env.OTEL_SERVICE_NAME && { 'service.name': env.OTEL_SERVICE_NAME }),
    'telemetry.sdk.language': 'nodejs',
    'telemetry.sdk.name': 'muster',
    'telemetry.sdk.version': version,
  };
}

function samplerIn(env: Environment, warn: Warn): Sampler {
  const name = env.OTEL_TRACES_SAMPLER || 'parentbased_always_on';
  const [, ofParent, kind] = /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(name) ?? [];
  if (kind === undefined) {
    warn(
      `OTEL_TRACES_SAMPLER: expected always_on, always_off, traceidratio, or parentbased_ before one of them; got "${name}"`,
    );
    return (_traceId, parent) => parent?.isSampled ?? true;
  }
  const ratio = kind === 'traceidratio' ? ratioIn(env, warn) : kind === 'always_on' ? 1 : 0;
  // The same part of the id decides in every process, so that a trace is whole.
  const isChosen = (traceId: string) => Number.parseInt(traceId.slice(-8), 16) < ratio * 2 ** 32;
  return (traceId, parent) => (ofParent && parent ? parent.isSampled : isChosen(traceId));
}

function ratioIn(env: Environment, warn: Warn): number {
  const ratio = Number(env.OTEL_TRACES_SAMPLER_ARG || 1);
  if (ratio >= 0 && ratio <= 1) return ratio;
  warn(`OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1; got "${env.OTEL_TRACES_SAMPLER_ARG}"`);
  return 1;
}
