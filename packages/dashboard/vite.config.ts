import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

/** `npm run dev -w @muster/dashboard` serves the page from its sources, with the API of a service that runs beside it. */
const service = process.env.MUSTER_URL ?? 'http://127.0.0.1:8420';

/** The letters are asked for together with the scripts, and are there when these write the first word. */
const preloadFonts: Plugin = {
  name: 'preload-fonts',
  transformIndexHtml: {
    order: 'post',
    handler: (_html, { bundle = {} }) =>
      Object.keys(bundle)
        .filter((file) => file.endsWith('.woff2'))
        .map((file) => ({
          tag: 'link',
          attrs: { rel: 'preload', as: 'font', type: 'font/woff2', crossorigin: '', href: `/${file}` },
          injectTo: 'head',
        })),
  },
};

export default defineConfig({
  plugins: [react(), preloadFonts],
  server: { proxy: { '/v1': service, '/docs': service, '/openapi.json': service } },
  build: {
    outDir: '../service/static/dashboard',
    emptyOutDir: true,
    target: 'es2023',
    // What the page loads is a file of its own: its policy allows no data: URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // A test counts what the first load weighs when it is compressed.
    chunkSizeWarningLimit: 1000,
  },
});
