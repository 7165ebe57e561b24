import type { Kind } from '@muster/sdk/contract';

/** How one speaks of what a kind keeps secret, and of its end. */
export interface SecretWords {
  /** What is shown once. */
  readonly label: string;
  /** What deleting the resource is called. */
  readonly end: string;
  readonly ended: string;
  /** What a rotation does. */
  readonly rotation: string;
}

const others: SecretWords = {
  label: 'Secret',
  end: 'Delete',
  ended: 'It is gone for everyone. Its history stays, and with it every text it had.',
  rotation: '',
};

const words: Readonly<Partial<Record<Kind, SecretWords>>> = {
  token: {
    label: 'Key',
    end: 'Revoke',
    ended: 'Its key stops working within 5 seconds, for whoever uses it.',
    rotation:
      'A new key is made and shown once. The old one stops working within 5 seconds, for whoever uses it.',
  },
  'share-link': {
    label: 'Link',
    end: 'Revoke',
    ended: 'The link stops working within 5 seconds, also for those who watch right now.',
    rotation: 'A new link is made and shown once. The old one stops working within 5 seconds.',
  },
  integration: {
    label: 'Signing key',
    end: 'Delete',
    ended: 'What is signed with its key is refused from then on.',
    rotation: 'A new signing key is made and shown once. The old one stops working within 5 seconds.',
  },
};

export const secretWords = (kind: Kind): SecretWords => words[kind] ?? others;
