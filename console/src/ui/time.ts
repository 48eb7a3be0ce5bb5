import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";

// when writes a time short: the hour today, else the day too.
export function when(t?: Timestamp): string {
  if (!t) {
    return "–";
  }
  const d = timestampDate(t);
  const today = d.toDateString() === new Date().toDateString();
  return today ? d.toLocaleTimeString() : d.toLocaleString();
}
