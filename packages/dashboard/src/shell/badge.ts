import { useEffect, useSyncExternalStore } from 'react';
import icon from '../icon.svg?raw';
import { useFleet } from '../live/fleet.ts';
import { setTitleCount } from '../parts/page.tsx';

/** The icon with a number that is readable at 16 pixels. */
function badgedIcon(count: number): string {
  const text = count > 9 ? '9+' : String(count);
  const width = count > 9 ? 28 : 20;
  const badge = `<rect x="${32 - width}" y="12" width="${width}" height="20" rx="9" fill="#d6293e" stroke="#fff" stroke-width="1.5"/>
    <text x="${32 - width / 2}" y="28" text-anchor="middle" font-family="Arial, sans-serif" font-weight="700" font-size="17" fill="#fff">${text}</text>`;
  return icon.replace('</svg>', `${badge}</svg>`);
}

/** The tab's title and icon show how many agents of the person need the person. */
export function useBadge(): void {
  const fleet = useFleet();
  const count = useSyncExternalStore(fleet.subscribe, fleet.needingCaller);
  useEffect(() => {
    setTitleCount(count);
    const link = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
    if (count === 0 || !link) return;
    const plain = link.href;
    const url = URL.createObjectURL(new Blob([badgedIcon(count)], { type: 'image/svg+xml' }));
    link.href = url;
    return () => {
      link.href = plain;
      URL.revokeObjectURL(url);
    };
  }, [count]);
  useEffect(() => () => setTitleCount(0), []);
}
