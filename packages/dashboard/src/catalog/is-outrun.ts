import { FailedPreconditionError } from '@muster/sdk';

/** A write was refused because the resource is no longer at the generation that was read. */
export const isOutrun = (error: unknown): boolean =>
  error instanceof FailedPreconditionError && error.violations.some(({ type }) => type === 'GENERATION');
