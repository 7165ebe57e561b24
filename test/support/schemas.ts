import {
  errorEnvelope,
  globProblem,
  type Route,
  type RouteName,
  routes,
  type Schema,
} from '@muster/sdk/contract';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

/** The contract's schemas, compiled: whether a reply fits what the contract promises. */
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
export function misfit(schema: Schema, value: unknown): string | undefined {
  const validate = validatorOf(schema);
  return validate(value) ? undefined : ajv.errorsText(validate.errors, { dataVar: 'value' });
}

export const replyMisfit = (route: RouteName, value: unknown): string | undefined =>
  misfit(routes[route].reply, value);

export const envelopeMisfit = (value: unknown): string | undefined => misfit(errorEnvelope, value);

export const routeEntries = Object.entries(routes) as [RouteName, Route][];

/** The routes that name one agent in `agentId` and expect it to exist. */
export const agentRoutes = routeEntries.filter(
  ([name, route]) => name !== 'spawn' && route.body?.properties?.agentId !== undefined,
);
