/** The edge speaks of refusals too; it gets them from here. */
export { invalid, isRefusal, type Refusal } from '../domain/refusal.ts';
