import { globProblem, type Schema } from '@muster/sdk/contract';
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import { cutText } from './cut-text.ts';

/** The field that is wrong, and what is expected of it. */
export interface Violation {
  readonly field: string;
  readonly description: string;
}

// Not validated: the compiler has checked these schemas, and validation would take a tenth of the start-up time.
const ajv = new Ajv({
  strict: false,
  verbose: true,
  allowUnionTypes: true,
  meta: false,
  validateSchema: false,
});
formats.default(ajv, ['uuid']);
ajv.addFormat('date-time', { type: 'string', validate: isDateTime });
ajv.addFormat('glob', { type: 'string', validate: (text: string) => globProblem(text) === null });
ajv.addFormat('int64', { type: 'string', validate: isInt64 });

const rfc3339 = formats.default.get('date-time') as { validate(text: string): boolean };

/** A Date can't represent leap seconds and offsets without minutes. */
function isDateTime(text: string): boolean {
  return rfc3339.validate(text) && !Number.isNaN(Date.parse(text));
}

function isInt64(text: string): boolean {
  return /^-?\d{1,19}$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text);
}

/**
 * Returns the first violation. The schema is compiled with the first value: compiling those of all routes takes a quarter
 * of the start-up time.
 */
export function validator(schema: Schema): (value: unknown) => Violation | null {
  let validate: ValidateFunction | undefined;
  return (value) => {
    validate ??= ajv.compile(schema);
    return validate(value) ? null : violationOf(validate.errors ?? []);
  };
}

function violationOf(errors: readonly ErrorObject[]): Violation {
  // Every branch of an `anyOf` reports errors; that of the `anyOf` itself says what is expected.
  const error = errors.find((e) => e.keyword === 'anyOf') ?? errors[0];
  if (!error) return { field: '', description: 'is not valid' };
  const at = fieldAt(error.instancePath);
  if (error.keyword === 'required') {
    return { field: join(at, String(error.params.missingProperty)), description: 'is required' };
  }
  const expected = (error.parentSchema as Schema | undefined)?.expected;
  return { field: at, description: expected ? `must be ${expected}` : describe(error) };
}

/** What is expected, and what was received: of a text that may be secret only its type and length. */
function describe({ keyword, params, data, message }: ErrorObject): string {
  const most = params.limit as number;
  switch (keyword) {
    case 'enum':
      return `must be one of ${(params.allowedValues as string[]).filter(Boolean).join(', ')}; got ${shown(data)}`;
    case 'type':
      return `must be ${article(params.type as string | string[])}; got ${article(typeOf(data))}`;
    case 'minLength':
      return most === 1
        ? 'must not be empty'
        : `must have at least ${most} characters; got ${lengthOf(data)}`;
    case 'maxLength':
      return `must have at most ${most} characters; got ${lengthOf(data)}`;
    case 'minItems':
      return most === 1 ? 'must not be empty' : `must have at least ${most} items; got ${lengthOf(data)}`;
    case 'maxItems':
      return `must have at most ${most} items; got ${lengthOf(data)}`;
    case 'maxProperties':
      return `must have at most ${most} fields; got ${Object.keys(data as object).length}`;
    case 'minimum':
      return `must be at least ${most}; got ${data}`;
    case 'maximum':
      return `must be at most ${most}; got ${data}`;
    case 'format':
      if (params.format === 'glob') return globProblem(String(data)) ?? 'must be a glob';
  }
  return message ?? 'is not valid';
}

const lengthOf = (value: unknown): number =>
  typeof value === 'string' ? [...value].length : (value as unknown[]).length;
const typeOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
const shown = (value: unknown): string =>
  typeof value === 'object' ? article(typeOf(value)) : cutText(JSON.stringify(value), 100).text;

const article = (type: string | string[]): string =>
  type === 'null'
    ? type
    : [type]
        .flat()
        .filter((t) => t !== 'null')
        .map((t) => (/^[aeio]/.test(t) ? `an ${t}` : `a ${t}`))
        .join(' or ');

const join = (path: string, name: string): string => (path ? `${path}.${name}` : name);

/** `/tasks/2/blockedBy/0` → `tasks[2].blockedBy[0]` */
function fieldAt(instancePath: string): string {
  return instancePath
    .split('/')
    .slice(1)
    .map((part) => part.replace(/~1/g, '/').replace(/~0/g, '~'))
    .reduce((path, part) => (/^\d+$/.test(part) ? `${path}[${part}]` : join(path, part)), '');
}
