import * as catalog from '../resource.ts';
import type { Operations } from './operation.ts';

export const catalogOperations = {
  writeResource: {
    summary: 'Creates or updates a catalog resource.',
    isOriginal: true,
    access: 'catalog-write',
    body: catalog.writeRequest,
    reply: catalog.writeReply,
    example: { payload: 'eyJpbnN0cnVjdGlvbnMiOiJCZSB0ZXJzZS4ifQ==', justification: 'A first draft' },
  },
  readResource: {
    summary: 'Reads a catalog resource.',
    isOriginal: true,
    access: 'catalog-read',
    reply: catalog.resource,
    query: catalog.resourceQuery,
  },
  listResources: {
    summary: 'Lists the resources of a kind.',
    access: 'catalog-read',
    reply: catalog.listResourcesReply,
    query: catalog.resourceListQuery,
  },
  deleteResource: {
    summary: 'Deletes a catalog resource.',
    access: 'catalog-write',
    body: catalog.resourceDeleteBody,
    reply: catalog.deleteReply,
    query: catalog.resourceDeleteQuery,
    example: { justification: 'It is not used any more' },
  },
  resourceHistory: {
    summary: 'Lists who wrote a resource, when and why, newest first.',
    access: 'catalog-read',
    reply: catalog.historyReply,
    query: catalog.resourceListQuery,
  },
  validateResource: {
    summary: 'Checks a write, and writes nothing.',
    access: 'catalog-write',
    body: catalog.writeRequest,
    reply: catalog.writeReply,
    example: { payload: 'eyJpbnN0cnVjdGlvbiI6IkJlIHRlcnNlLiJ9' },
  },
} as const satisfies Operations;
