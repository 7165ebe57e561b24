import {
  type ErrorEnvelope,
  errorEnvelope,
  globProblem,
  type Route,
  type RouteName,
  routes,
  type Schema,
  statusCodes,
} from '@muster/sdk/contract';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

/** Checks replies against the contract's schemas. */
const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(ajv);
ajv.addFormat('glob', { type: 'string', validate: (text: string) => globProblem(text) === null });

const compiled = new Map<Schema, ValidateFunction>();

function validatorOf(schema: Schema): ValidateFunction {
  let validate = compiled.get(schema);
  if (!validate) {
    const { title, ...unnamed } = schema;
    validate = ajv.compile(unnamed);
    compiled.set(schema, validate);
  }
  return validate;
}

/** What is wrong with the value, or undefined. */
export function schemaProblem(schema: Schema, value: unknown): string | undefined {
  const validate = validatorOf(schema);
  return validate(value) ? undefined : ajv.errorsText(validate.errors, { dataVar: 'value' });
}

export const replySchemaProblem = (route: RouteName, value: unknown): string | undefined =>
  schemaProblem(routes[route].reply, value);

export const errorSchemaProblem = (value: unknown): string | undefined => schemaProblem(errorEnvelope, value);

export const routeEntries = Object.entries(routes) as [RouteName, Route][];

/** The routes that name one agent in `agentId` and expect it to exist. */
export const agentRoutes = routeEntries.filter(
  ([name, route]) => name !== 'spawn' && route.body?.properties?.agentId !== undefined,
);

export interface HttpOutcome {
  readonly status: number;
  readonly text: string;
  readonly contentType: string;
}

/** What is wrong with the reply to a generated request, or undefined. `request.wrong` says why it must be refused. */
export function replyProblem(
  request: { readonly route: RouteName; readonly wrong: string | undefined },
  { status, text, contentType }: HttpOutcome,
): string | undefined {
  if (status >= 500 && status !== 501) return `${status}: ${text}`;
  if (status >= 200 && status < 300) {
    if (request.wrong !== undefined) return `accepted (${status}) though ${request.wrong}`;
    if (contentType.startsWith('text/event-stream')) return undefined;
    const wrong = replySchemaProblem(request.route, JSON.parse(text));
    return wrong && `the reply does not match its schema: ${wrong}: ${text.slice(0, 500)}`;
  }
  const envelope = JSON.parse(text) as ErrorEnvelope;
  const wrong = errorSchemaProblem(envelope);
  if (wrong) return `not an error envelope: ${wrong}: ${text.slice(0, 500)}`;
  const known = Object.values(statusCodes).some((row) => row.code === envelope.code && row.http === status);
  return known ? undefined : `code ${envelope.code} with HTTP ${status}`;
}
