/** The edge speaks of refusals too; it gets them from here. */
export { invalid, isRefusal, notFound, type Refusal } from '../domain/refusal.ts';
