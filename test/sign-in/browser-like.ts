/** A browser without a screen: it keeps cookies of each host, and follows redirects. */
export class BrowserLike {
  /** By host and name. */
  readonly #cookies = new Map<string, Map<string, string>>();

  cookies(url: string): Map<string, string> {
    const { host } = new URL(url);
    const found = this.#cookies.get(host) ?? new Map<string, string>();
    this.#cookies.set(host, found);
    return found;
  }

  async fetch(url: string, init: RequestInit = {}): Promise<Response> {
    const jar = this.cookies(url);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const headers = { ...(cookie && { cookie }), ...(init.headers as Record<string, string>) };
    const response = await fetch(url, { redirect: 'manual', ...init, headers });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '' || /max-age=0/i.test(line)) jar.delete(name);
      else jar.set(name, value);
    }
    return response;
  }

  /** Follows redirects until there is none, or until `stop` says so. Returns the last address, and its reply. */
  async visit(
    url: string,
    stop: (url: string) => boolean = () => false,
  ): Promise<{ readonly url: string; readonly response: Response | null }> {
    let address = url;
    for (let i = 0; i < 20; i += 1) {
      if (stop(address)) return { url: address, response: null };
      const response = await this.fetch(address);
      const location = response.headers.get('location');
      if (!location || response.status < 300 || response.status > 399) return { url: address, response };
      await response.arrayBuffer();
      address = new URL(location, address).href;
    }
    throw new Error(`too many redirects: ${address}`);
  }

  /** Sends JSON as a page of the service does. */
  async post(url: string, body: unknown): Promise<{ readonly status: number; readonly body: never }> {
    const response = await this.fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: new URL(url).origin },
      body: JSON.stringify(body),
    });
    return { status: response.status, body: (await response.json()) as never };
  }
}
