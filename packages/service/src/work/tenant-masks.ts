import { ValueMask } from '../lib/value-mask.ts';

/** The values of a tenant's secrets; the same list until one changes. And few values that they had until recently. */
export interface SecretValues {
  values(tenant: number): Promise<readonly string[]>;
  earlierValues(tenant: number, name: null): Promise<readonly { readonly value: string }[]>;
}

/** Replaces the values of a tenant's secrets in texts that leave the service. */
export class TenantMasks {
  readonly #secrets: SecretValues;
  readonly #masks = new WeakMap<readonly string[], ValueMask>();

  constructor(secrets: SecretValues) {
    this.#secrets = secrets;
  }

  /** A mask that exists is used until a secret of the tenant changes: with many values it takes a while to make. */
  async of(tenant: number): Promise<(text: string) => string> {
    const values = await this.#secrets.values(tenant);
    const mask = this.#masks.get(values) ?? new ValueMask(values);
    this.#masks.set(values, mask);
    const earlier = new ValueMask(
      (await this.#secrets.earlierValues(tenant, null)).map(({ value }) => value),
    );
    return (text) => earlier.text(mask.text(text));
  }
}
