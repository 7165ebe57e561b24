import { createHmac, hkdfSync } from 'node:crypto';

/** The secret of the service, from which every key is derived that nodes share. */
export class ServiceSecret {
  /** Tells secrets apart in the database without revealing them. */
  readonly id: string;
  readonly #secret: string;

  constructor(secret: string) {
    this.#secret = secret;
    this.id = this.#derive('secret-id', 12).toString('hex');
  }

  /** A key of 32 bytes for one purpose. */
  keyFor(purpose: string): Buffer {
    return this.#derive(purpose, 32);
  }

  hmac(...parts: readonly string[]): string {
    return createHmac('sha256', this.#secret).update(JSON.stringify(parts)).digest('base64url');
  }

  #derive(purpose: string, bytes: number): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#secret, '', purpose, bytes));
  }
}

/** While the secret of the service is rotated, what was made with the previous one is accepted too. */
export class ServiceSecrets {
  readonly current: ServiceSecret;
  readonly previous: ServiceSecret | null;
  /** The current one first. */
  readonly all: readonly ServiceSecret[];

  constructor(current: string, previous: string | null = null) {
    this.current = new ServiceSecret(current);
    this.previous = previous === null || previous === current ? null : new ServiceSecret(previous);
    this.all = this.previous ? [this.current, this.previous] : [this.current];
  }

  find(id: string | null): ServiceSecret | undefined {
    return this.all.find((secret) => secret.id === id);
  }
}
