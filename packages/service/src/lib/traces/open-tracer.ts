import type { RunnerLog } from '../log.ts';
import type { Tracer } from './tracer.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Undefined where no collector is configured: then nothing is loaded, and nothing is measured. */
export async function openTracer(
  environment: Environment,
  serviceName: string,
  log: RunnerLog,
): Promise<Tracer | undefined> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT } = environment;
  if (!OTEL_EXPORTER_OTLP_ENDPOINT && !OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) return undefined;
  const [{ exportSettings }, { OtlpTracer }] = await Promise.all([
    import('./settings.ts'),
    import('./otlp-tracer.ts'),
  ]);
  const settings = exportSettings(environment, serviceName, (text) =>
    log.warn({ problem: text }, 'tracing configuration'),
  );
  return settings && new OtlpTracer(settings, log);
}
