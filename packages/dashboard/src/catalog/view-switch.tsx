import './view-switch.css';

/** The text of a resource, or its history. */
export const ViewSwitch = ({
  isHistory,
  onSwitch,
}: {
  readonly isHistory: boolean;
  readonly onSwitch: (isHistory: boolean) => void;
}) => (
  <div className="view-switch">
    <button type="button" aria-pressed={!isHistory} onClick={() => onSwitch(false)}>
      Document
    </button>
    <button type="button" aria-pressed={isHistory} onClick={() => onSwitch(true)}>
      History
    </button>
  </div>
);
