import { HostError, type Permission } from './host.ts';

/** A refusal as a value: it says what is missing. Everything else is a failure of the call itself. */
export async function orRefusal<T>(call: Promise<T>): Promise<T | HostError> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof HostError && error.kind === 'refused') return error;
    throw error;
  }
}

/** Nobody that the host does not know may do anything. A credential that it does not accept says nothing about people. */
export async function orNone(call: Promise<Permission>): Promise<Permission> {
  const found = await orRefusal(call);
  if (!(found instanceof HostError)) return found;
  if (found.status === 401) throw found;
  return 'none';
}
