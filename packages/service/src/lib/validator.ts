import { globProblem, type Schema } from '@muster/sdk/contract';
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';

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

function describe(error: ErrorObject): string {
  if (error.keyword === 'enum')
    return `must be one of ${(error.params.allowedValues as string[]).filter(Boolean).join(', ')}`;
  if (error.params.format === 'glob') return globProblem(String(error.data)) ?? 'must be a glob';
  if (error.keyword === 'type') return `must be ${article(error.params.type as string | string[])}`;
  return error.message ?? 'is not valid';
}

const article = (type: string | string[]): string =>
  [type]
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
