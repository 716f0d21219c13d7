// Saves the rows of a result as a file.

const save = (name, type, text) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};

const text = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

// A field of CSV (RFC 4180). NULL is empty, and an empty text is in quotes.
function field(value) {
  if (value === null || value === undefined) return "";
  const written = text(value);
  return written === "" || /[",\r\n]/.test(written) ? `"${written.replaceAll('"', '""')}"` : written;
}

export const csv = ({ columns, rows }) => [columns, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");

export const saveCsv = (result) => save("result.csv", "text/csv", csv(result));

// An array of objects; the second of two columns with the same name gets a number.
export function saveJson({ columns, rows }) {
  const names = columns.map((name, at) => (columns.indexOf(name) < at ? `${name}_${at + 1}` : name));
  const objects = rows.map((row) => Object.fromEntries(row.map((value, at) => [names[at], value])));
  save("result.json", "application/json", `${JSON.stringify(objects, null, 1)}\n`);
}
