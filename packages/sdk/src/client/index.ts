export * from './muster-client.ts';
