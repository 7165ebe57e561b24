import { HostError } from './host.ts';

/** A refusal as a value: it says what is missing. Everything else is a failure of the call itself. */
export async function orRefusal<T>(call: Promise<T>): Promise<T | HostError> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof HostError && error.kind === 'refused') return error;
    throw error;
  }
}
