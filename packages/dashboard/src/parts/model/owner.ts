import type { Provider } from '@muster/sdk';

const kinds: Readonly<Record<Provider, string>> = {
  PROVIDER_CODEHOST_OAUTH: 'code host account',
  PROVIDER_CODEHOST_APP: 'code host app',
  PROVIDER_IDP_OIDC: 'single sign-on',
  PROVIDER_SERVICE_PROFILE: 'service account',
  PROVIDER_UNSPECIFIED: '',
};

/** What sort of account it is. */
export const ownerKind = (provider: Provider): string => kinds[provider];

/** `ada` of `codehost_oauth/ada`. */
export const accountName = (owner: string): string => owner.slice(owner.indexOf('/') + 1);
