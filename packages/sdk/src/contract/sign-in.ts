import { type Infer, reply } from './infer.ts';
import { limits } from './limits.ts';
import { timestamp } from './scalars.ts';

/** How a page gets a key that nobody has to paste: whoever has the key asks for a code, the page gives it back. */

export const signInCodeRequest = { title: 'SignInCodeRequest', type: 'object', properties: {} } as const;

export const signInCodeReply = reply('SignInCodeReply', {
  code: { type: 'string', description: 'Good once, at the node that made it.' },
  expiresAt: timestamp,
});
export type SignInCode = Infer<typeof signInCodeReply>;

export const signInRequest = {
  title: 'SignInRequest',
  type: 'object',
  properties: {
    code: {
      type: 'string',
      minLength: 1,
      maxLength: limits.idLength,
      expected: 'the code that signInCode gave',
    },
  },
  required: ['code'],
} as const;

export const signInReply = reply('SignInReply', {
  key: { type: 'string', description: 'The key that asked for the code.' },
});
