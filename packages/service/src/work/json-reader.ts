import { isObject } from '../lib/json.ts';

/**
 * Reads JSON that a host sent. A field that is not what the host documents is a `TypeError` that names it, so that a
 * wrong body is never taken for one with empty fields.
 */
export class JsonReader {
  readonly value: unknown;
  readonly #place: string;

  constructor(value: unknown, place = '') {
    this.value = value;
    this.#place = place;
  }

  /** A field that is an object. */
  object(name: string): JsonReader {
    return this.find(name) ?? this.#fail(name, 'an object', undefined);
  }

  /** The same, or null if the field is missing or null. */
  find(name: string): JsonReader | null {
    const value = this.#field(name);
    if (value === undefined || value === null) return null;
    return isObject(value) ? new JsonReader(value, this.#at(name)) : this.#fail(name, 'an object', value);
  }

  text(name: string): string {
    const value = this.#field(name);
    return typeof value === 'string' ? value : this.#fail(name, 'a text', value);
  }

  /** Empty if the field is missing or null. */
  textOrEmpty(name: string): string {
    const value = this.#field(name) ?? '';
    return typeof value === 'string' ? value : this.#fail(name, 'a text', value);
  }

  /** A web address; empty if the field is missing, null or something else. */
  url(name: string): string {
    return webUrl(this.textOrEmpty(name));
  }

  number(name: string): number {
    const value = this.#field(name);
    return typeof value === 'number' && Number.isSafeInteger(value)
      ? value
      : this.#fail(name, 'an integer', value);
  }

  numberOrNull(name: string): number | null {
    return (this.#field(name) ?? null) === null ? null : this.number(name);
  }

  /** False if the field is missing or null. */
  flag(name: string): boolean {
    const value = this.#field(name) ?? false;
    return typeof value === 'boolean' ? value : this.#fail(name, 'true or false', value);
  }

  flagOrNull(name: string): boolean | null {
    return (this.#field(name) ?? null) === null ? null : this.flag(name);
  }

  /** A list of objects; empty if the field is missing or null. */
  list(name: string): JsonReader[] {
    const value = this.#field(name) ?? [];
    return new JsonReader(value, this.#at(name)).items();
  }

  /** The entries of this value, which is a list of objects. */
  items(): JsonReader[] {
    if (!Array.isArray(this.value)) throw new TypeError(`${this.#place || 'the body'} must be a list`);
    return this.value.map((item: unknown, index) => {
      const place = `${this.#place}[${index}]`;
      if (!isObject(item)) throw new TypeError(`${place} must be an object`);
      return new JsonReader(item, place);
    });
  }

  #field(name: string): unknown {
    if (!isObject(this.value)) throw new TypeError(`${this.#place || 'the body'} must be an object`);
    return Object.hasOwn(this.value, name) ? this.value[name] : undefined;
  }

  #at(name: string): string {
    return this.#place ? `${this.#place}.${name}` : name;
  }

  #fail(name: string, expected: string, value: unknown): never {
    const got = Array.isArray(value) ? 'a list' : value === null ? 'null' : typeof value;
    throw new TypeError(`${this.#at(name)} must be ${expected}; got ${got}`);
  }
}

const mostUrlLength = 2_000;

/** A web address as a host gives it, on one line and without credentials; empty if it is something else. */
export function webUrl(text: string): string {
  const url = text.length <= mostUrlLength && URL.canParse(text) ? new URL(text) : null;
  const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:';
  return isWeb && url.username === '' && url.password === '' && url.href.length <= mostUrlLength
    ? url.href
    : '';
}
