export { isZone, zoneProblem } from '@muster/sdk/contract';
