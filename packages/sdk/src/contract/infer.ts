/**
 * The TypeScript type of a JSON Schema written as an `as const` literal.
 * It knows exactly the part of JSON Schema that this contract uses; anything else infers `unknown`.
 */
export type Infer<S> = S extends { readonly const: infer C }
  ? C
  : S extends { readonly enum: readonly (infer E)[] }
    ? E
    : S extends { readonly anyOf: readonly (infer A)[] }
      ? Infer<A>
      : S extends { readonly type: readonly (infer T)[] }
        ? OfType<T, S>
        : S extends { readonly type: infer T }
          ? OfType<T, S>
          : unknown;

type OfType<T, S> = T extends 'string'
  ? string
  : T extends 'integer' | 'number'
    ? number
    : T extends 'boolean'
      ? boolean
      : T extends 'null'
        ? null
        : T extends 'array'
          ? S extends { readonly items: infer I }
            ? Infer<I>[]
            : unknown[]
          : T extends 'object'
            ? OfObject<S>
            : never;

type OfObject<S> = S extends { readonly properties: infer P }
  ? S extends { readonly required: readonly (infer R)[] }
    ? { [K in keyof P as K extends R ? K : never]: Infer<P[K]> } & {
        [K in keyof P as K extends R ? never : K]?: Infer<P[K]> | undefined;
      }
    : { [K in keyof P]?: Infer<P[K]> | undefined }
  : S extends { readonly additionalProperties: infer A }
    ? Record<string, Infer<A>>
    : Record<string, unknown>;

/** A JSON Schema as the contract writes it; `expected` is what an error tells the caller would be right. */
export interface Schema {
  readonly title?: string;
  readonly description?: string;
  readonly expected?: string;
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly additionalProperties?: boolean | Schema;
  readonly [keyword: string]: unknown;
}

/** A reply: every field is always there. */
export const reply = <const T extends string, const P extends Record<string, Schema>>(
  title: T,
  properties: P,
) => ({
  title,
  type: 'object' as const,
  properties,
  required: Object.keys(properties) as (keyof P)[],
});

/** A reply that may also be `null`. */
export const nullable = <const S extends { readonly type: 'object' }>(schema: S) => ({
  ...schema,
  type: ['object', 'null'] as const,
});
