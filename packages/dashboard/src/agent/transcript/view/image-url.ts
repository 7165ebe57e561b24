import { agentPage } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { useTranscript } from './transcript-context.ts';

/** A URL for an image of the agent, as long as it is shown; empty before it is loaded. */
export function useImageUrl(id: string): { readonly url: string; readonly isDeleted: boolean } {
  const { agentId, client } = useTranscript();
  const { data, error } = useQuery({
    queryKey: ['attachment', agentPage(agentId), id],
    queryFn: async ({ signal }) => {
      const { content, mediaType } = await client.attachments.read(agentId, id, { signal });
      return new Blob([Uint8Array.from(atob(content), (byte) => byte.charCodeAt(0))], { type: mediaType });
    },
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  const [shown, setShown] = useState<{ readonly data: Blob; readonly url: string }>();
  useEffect(() => {
    if (!data) return;
    const url = URL.createObjectURL(data);
    setShown({ data, url });
    return () => URL.revokeObjectURL(url);
  }, [data]);
  // Not the URL of the image before.
  return { url: shown && shown.data === data ? shown.url : '', isDeleted: error !== null };
}
