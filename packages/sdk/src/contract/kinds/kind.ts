import { boolean, type Schema, timestampIn } from '../schema.ts';

type Fields = Readonly<Record<string, unknown>>;

/** One kind of the catalog: all that the service, the command line and the dashboard need to know about it. */
export interface KindEntry {
  /** As a heading: `Workspaces`. */
  readonly title: string;
  /** In a sentence: `workspace`. */
  readonly one: string;
  readonly purpose: string;
  /** Where the dashboard lists it. */
  readonly group: KindGroup;
  /** Further names, as `squeeze` in kinds.ts writes them. */
  readonly aliases?: readonly string[];
  /** The known fields. No field is required, and unknown fields are kept. */
  readonly schema: Schema & { readonly properties: Readonly<Record<string, Schema>> };
  /** The field that is the text of a Markdown file, whose front matter has the others. Without it, files are YAML. */
  readonly prose?: string;
  /** `members`: admins, and members what they created. `nobody`: records of the service, without generations. */
  readonly writers: 'members' | 'admins' | 'nobody';
  /** Resources that exist before anyone writes one. A stored resource of the same name replaces them. */
  readonly builtins?: Readonly<Record<string, Fields>>;
  /** The fields of a new document. Each starts with its example. */
  readonly template?: readonly string[];
  /** Fields that the service sets, beside those of every kind. */
  readonly serverFields?: readonly string[];
  readonly secret?: KindSecret;
  /** The fields that the dashboard asks for when a resource with a secret is created. */
  readonly form?: readonly FormField[];
  /** What is different about deleting one. */
  readonly deleting?: { readonly verb: string; readonly effect: string };
  /** Columns of `muster get`, as title and field, beside those of every kind. */
  readonly columns?: Readonly<Record<string, string>>;
  /** False if its history does not have what a restored resource would need. */
  readonly isRestorable?: false;
  /** All documents of a tenant, if less than `limits.documentBytesPerKind`. */
  readonly mostBytes?: number;
  /** How many documents a tenant may have, if less than `limits.documentsPerKind`. */
  readonly mostDocuments?: number;
  /** The document in one line. It may have any shape, so unexpected values are left out. */
  readonly summary: (document: Fields) => string;
}

export const kindGroups = ['Work', 'Machines', 'Access', 'Records'] as const;
export type KindGroup = (typeof kindGroups)[number];

/** A value that the service keeps beside the document. */
export interface KindSecret {
  /**
   * Of a secret that is shown once, the field of the reply that creates or rotates it. Of a sealed one, the field that a
   * write may set and that no reply shows.
   */
  readonly field: string;
  readonly isSealed: boolean;
  readonly label: string;
  /** What happens when there is a new one. */
  readonly replacing: string;
}

export interface FormField {
  readonly field: string;
  readonly initial?: string;
  /** Of a time: the number of days from now. */
  readonly days?: number;
  /** Shown only with this role. */
  readonly role?: string;
}

export const open = <const P extends Record<string, Schema>>(properties: P) =>
  ({ type: 'object', properties, additionalProperties: true }) as const;

/** A field with its description and an example, which the dashboard shows. */
export const field = <const S extends Schema, const E>(schema: S, description: string, example: E) => ({
  ...schema,
  description,
  examples: [example],
});

export const setting = { type: 'string', maxLength: 256 } as const;

/** The name of a resource of this kind. A write warns if there is none. */
export const nameOf = (kind: string) => ({ ...setting, names: kind }) as const;
export const secretName = { type: 'string', minLength: 1, names: 'secret' } as const;

const timeOrNull = { ...timestampIn, type: ['string', 'null'] } as const;
export const expiry = field(timeOrNull, 'When it expires; never, if absent.', '2027-01-31T09:00:00Z');
export const rotate = field(
  boolean,
  'true creates a new secret and revokes the old one. This field is not stored.',
  true,
);

const sourceName = { type: 'string', minLength: 1 } as const;

/** A text, or where it is taken from. */
export const given = {
  expected:
    'a string, {"fromSecret": "NAME"} to take it from a secret, or {"fromRunner": "NAME"} to take it from the runner',
  anyOf: [
    { type: 'string' },
    {
      type: 'object',
      properties: { fromSecret: secretName },
      required: ['fromSecret'],
      not: { required: ['fromRunner'] },
    },
    {
      type: 'object',
      properties: { fromRunner: sourceName },
      required: ['fromRunner'],
      not: { required: ['fromSecret'] },
    },
  ],
} as const;

export const fromSecret = {
  type: 'object',
  properties: { fromSecret: secretName },
  required: ['fromSecret'],
  expected: '{"fromSecret": "NAME"} with the name of a secret',
} as const;
