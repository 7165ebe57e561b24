import { messageOf } from '../../lib/errors.ts';
import { joinUrl } from '../gateway/upstream.ts';
import { type Environment, isOn } from '../workspace/environment.ts';
import { type Account, AccountError, type AuthorizedCall, isTemporary, keyRefused } from './account.ts';
import { baseUrl, customHeaders, secretsIn } from './api-keys.ts';

/** Claude in Google Vertex. Google's own library finds the credentials (GOOGLE_APPLICATION_CREDENTIALS, gcloud, the machine). */
export function vertexAccount(environment: Environment): Account | undefined {
  if (!isOn(environment.CLAUDE_CODE_USE_VERTEX)) return undefined;
  const { CLOUD_ML_REGION: region = '', ANTHROPIC_VERTEX_PROJECT_ID: project = '' } = environment;
  if (!/^[a-z0-9-]+$/.test(region))
    throw new Error(
      'CLOUD_ML_REGION must be the region of Google Vertex, such as global or us-east5, with CLAUDE_CODE_USE_VERTEX',
    );
  if (!/^[\w:.-]+$/.test(project))
    throw new Error(
      'ANTHROPIC_VERTEX_PROJECT_ID must be the id of a Google Cloud project, with CLAUDE_CODE_USE_VERTEX',
    );
  const url = baseUrl(
    'ANTHROPIC_VERTEX_BASE_URL',
    environment.ANTHROPIC_VERTEX_BASE_URL || `https://${hostOf(region)}/v1`,
  );
  const custom = customHeaders(environment.ANTHROPIC_CUSTOM_HEADERS);
  const keyFile = environment.GOOGLE_APPLICATION_CREDENTIALS || undefined;
  const tokens = new GoogleTokens(project, keyFile);
  return {
    provider: 'vertex',
    setting: 'the Google credentials',
    about: `Google Vertex (Google credentials, ${project}, ${region})`,
    secrets: () => [...tokens.secrets, ...secretsIn(custom)],
    authorize: async (call) => {
      // The harness does not know the project.
      const path = call.path.replace(
        /^\/projects\/[^/]+\/locations\/[^/]+/,
        `/projects/${project}/locations/${region}`,
      );
      const headers = await tokens.headers();
      return {
        url: joinUrl(String(url), path, call.query),
        headers: { ...call.headers, ...headers, ...custom },
      };
    },
    renew: (refused) => tokens.renew(refused),
    ...(keyFile && { files: [keyFile] }),
  };
}

function hostOf(region: string): string {
  if (region === 'global') return 'aiplatform.googleapis.com';
  return region === 'us' || region === 'eu'
    ? `aiplatform.${region}.rep.googleapis.com`
    : `${region}-aiplatform.googleapis.com`;
}

type Client = Awaited<ReturnType<typeof findClient>>;

/** Loaded with the first request: most runners need none of it. Without the project the library would ask Google for it. */
async function findClient(projectId: string, keyFilename: string | undefined) {
  const { GoogleAuth } = await import('google-auth-library');
  const scopes = 'https://www.googleapis.com/auth/cloud-platform';
  return new GoogleAuth({ projectId, scopes, ...(keyFilename && { keyFilename }) }).getClient();
}

/** The client caches its token, renews it before it expires, and shares a renewal among all requests. */
class GoogleTokens {
  readonly #project: string;
  readonly #keyFile: string | undefined;
  #client: Promise<Client> | undefined;
  #token = '';
  /** An answer to a request with the token before may still arrive. */
  #before = '';

  constructor(project: string, keyFile: string | undefined) {
    this.#project = project;
    this.#keyFile = keyFile;
  }

  get secrets(): string[] {
    return [this.#token, this.#before];
  }

  async headers(): Promise<Record<string, string>> {
    this.#client ??= findClient(this.#project, this.#keyFile);
    const finding = this.#client;
    try {
      const headers = Object.fromEntries(await (await finding).getRequestHeaders());
      if (this.#client === finding) this.#token = (headers.authorization ?? '').replace(/^Bearer /, '');
      return headers;
    } catch (error) {
      if (this.#client === finding) this.#client = undefined;
      const message = `Google gave no token for Vertex: ${messageOf(error)}`;
      throw new AccountError(message, isTemporary(error) ? undefined : keyRefused);
    }
  }

  /** A new client has no token. */
  async renew({ headers }: AuthorizedCall): Promise<void> {
    if (headers.authorization === `Bearer ${this.#token}`) {
      this.#before = this.#token;
      this.#token = '';
      this.#client = undefined;
    }
    await this.headers();
  }
}
