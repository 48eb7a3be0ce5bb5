// A page that came over plain HTTP from another machine: whoever is on the way may have made it. What is signed in it only
// denies; the daemon sees to that, and this keeps the page from offering more.
export const onlyDenies = location.protocol === "http:" && location.hostname !== "palyra.localhost";
